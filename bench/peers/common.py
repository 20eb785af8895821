"""What the peers that tune a network share before any of them loads its framework: options, the process's surroundings,
timing and comparison with stored values. Nothing here may import JAX or PyTorch, because cores, allocator and flags are
read when these start."""
import argparse
import os
import sys
import time

import numpy as np

# Temporaries stay with the allocator: when every call returned them to the system, an untiled pass took half as long again.
KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": "4294967296", "MALLOC_TRIM_THRESHOLD_": "4294967296",
               "MALLOC_TOP_PAD_": "268435456"}


def options(particles, weights):
    """The command line; `weights` says what the arrays of a model are called."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, choices=(1, 2), default=1)
    parser.add_argument("--particles", type=int, default=particles)
    parser.add_argument("--seconds", type=float, default=2, help="how long each arrangement is measured")
    parser.add_argument("--model", help=f"weights, {weights}; random ones unless told")
    parser.add_argument("--check", metavar="FILE.npz")
    return parser.parse_args()


def core_type():
    """For an OpenBLAS that does not know the processor: which kernels it is to use."""
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
        flags = next((line.split() for line in file if line.startswith("flags")), [])
    if {"avx512f", "avx512dq", "avx512bw", "avx512vl"} <= set(flags):
        return {"OPENBLAS_CORETYPE": "SKYLAKEX"}
    return {"OPENBLAS_CORETYPE": "HASWELL"} if "avx2" in flags else {}


def settle(threads, **environment):
    """Cores, allocator and libraries read these when the process starts: set them, then start again."""
    if os.environ.get("PEER_SETTLED") == "1":
        return
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    os.environ.update(KEEP_MEMORY, PEER_SETTLED="1", **environment)
    os.execv(sys.executable, [sys.executable] + sys.argv)


def settle_jax(threads):
    flags = "--xla_force_host_platform_device_count=2" if threads == 2 else "--xla_cpu_multi_thread_eigen=false"
    settle(threads, JAX_PLATFORMS="cpu", XLA_FLAGS=(os.environ.get("XLA_FLAGS", "") + " " + flags).strip())


def settle_torch(threads):
    count = str(threads)
    settle(threads, **core_type(), OMP_NUM_THREADS=count, MKL_NUM_THREADS=count, OPENBLAS_NUM_THREADS=count)


def fastest(call, seconds):
    """Other work on the machine only ever adds time, hence the best call. Compilers need two calls to settle."""
    call()
    call()
    best, start, count = np.inf, time.perf_counter(), 0
    while time.perf_counter() - start < seconds or count < 5:
        t = time.perf_counter()
        call()
        best, count = min(best, time.perf_counter() - t), count + 1
    return best


def measure(clocks, ways, seconds):
    """Prints `name` of every clock, the fastest way, `name_whole`, the fastest of the plain ones (all particles in one
    batch, written as a user would), and `name_apart`, the fastest of those that make every pass by itself. A clock takes
    a way and seconds and returns the time of a call."""
    for name, clock in clocks.items():
        best = whole = apart = np.inf
        for way in ways:
            took = clock(way, seconds)
            print(f"# {name}, {way.name}: {took:.6f}", flush=True)
            best = min(best, took)
            if way.plain:
                whole = min(whole, took)
            if way.plain and way.apart:
                apart = min(apart, took)
        print(f"{name} {best:.6f}\n{name}_whole {whole:.6f}\n{name}_apart {apart:.6f}", flush=True)


def differs(name, got, want, tolerance):
    error = np.abs(np.asarray(got, np.float64) - want).max() / np.abs(want).max()
    print(f"{name}: largest error {error:.2e} of the largest value, {tolerance:.0e} allowed")
    return not error <= tolerance
