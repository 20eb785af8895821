"""The energy network 2-128-128-128-128-1 (SiLU, single precision) in PyTorch, as a peer for bench/mlp.

    python mlp_torch.py --threads 1|2 [--seconds S] [--model FILE.npz]   lines `name seconds`, the best of many calls
    python mlp_torch.py --check FILE.npz       energy and gradients against FILE_reference.npz; exit status 1 if they differ

`energy_gradient` is E and grad_x E of all particles, `iteration` one whole SOSMC-ULA tuning iteration in the order of the
published programs. Each is measured in several arrangements of the same arithmetic (autograd, backward passes written by
hand, the same compiled where torch.compile exists; all particles at once, tiles that stay in cache, tiles shared by two
workers) and the fastest counts; lines that begin with # say which. Temporaries are kept by the allocator, as in
mlp_jax.py, and an OpenBLAS that does not know the processor is told which kernels to use.
"""
import argparse
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor

KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": "4294967296", "MALLOC_TRIM_THRESHOLD_": "4294967296",
               "MALLOC_TOP_PAD_": "268435456"}


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, choices=(1, 2), default=1)
    parser.add_argument("--particles", type=int, default=10000)
    parser.add_argument("--seconds", type=float, default=2, help="how long each arrangement is measured")
    parser.add_argument("--model", help="weights, layerK_weight and layerK_bias; random ones unless told")
    parser.add_argument("--check", metavar="FILE.npz")
    return parser.parse_args()


def core_type():
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
        flags = next((line.split() for line in file if line.startswith("flags")), [])
    if {"avx512f", "avx512dq", "avx512bw", "avx512vl"} <= set(flags):
        return {"OPENBLAS_CORETYPE": "SKYLAKEX"}
    return {"OPENBLAS_CORETYPE": "HASWELL"} if "avx2" in flags else {}


def settle(threads):
    """Cores, allocator and libraries read these when the process starts: set them, then start again."""
    if os.environ.get("MLP_PEER_SETTLED") == "1":
        return
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    count = str(threads)
    os.environ.update(core_type(), **KEEP_MEMORY, MLP_PEER_SETTLED="1", OMP_NUM_THREADS=count, MKL_NUM_THREADS=count,
                      OPENBLAS_NUM_THREADS=count)
    os.execv(sys.executable, [sys.executable] + sys.argv)


OPTIONS = options()
settle(OPTIONS.threads)

import numpy as np
import torch

SIZES = (2, 128, 128, 128, 128, 1)
BETA, RATE, CLIP = 0.25, 2e-4, 1000.0
silu, silu_backward = torch.nn.functional.silu, torch.ops.aten.silu_backward


def load(path):
    with np.load(path) as file:
        return [torch.from_numpy(file[f"layer{k}_{part}"].copy()) for k in range(1, len(SIZES))
                for part in ("weight", "bias")]


def random_network():
    rng, theta = np.random.default_rng(0), []
    for columns, rows in zip(SIZES, SIZES[1:]):
        theta += [torch.from_numpy(rng.normal(0, columns**-0.5, (rows, columns)).astype(np.float32)), torch.zeros(rows)]
    return theta


# ------------------------------------------------------------------------------------------------ autograd


def energy(theta, x):
    for k in range(0, len(theta) - 2, 2):
        x = silu(torch.addmm(theta[k + 1], x, theta[k].t()))
    return torch.addmm(theta[-1], x, theta[-2].t()).squeeze(1)


def auto_energy_gradient(theta, x):
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        e = energy(theta, x)
        g, = torch.autograd.grad(e, x, torch.ones_like(e))
    return e.detach(), g


def auto_theta_gradient(theta, x, c):
    with torch.enable_grad():
        theta = [t.detach().requires_grad_() for t in theta]
        return torch.autograd.grad(energy(theta, x), theta, c)


# ------------------------------------------------------------------------------------------------ by hand


def hand_forward(theta, x):
    z, h = [], [x]
    for k in range(0, len(theta) - 2, 2):
        z.append(torch.addmm(theta[k + 1], h[-1], theta[k].t()))
        h.append(silu(z[-1]))
    return z, h


def hand_energy_gradient(theta, x):
    z, h = hand_forward(theta, x)
    e = torch.addmm(theta[-1], h[-1], theta[-2].t()).squeeze(1)
    delta = theta[-2].expand(x.shape[0], -1)
    for k in range(len(z) - 1, -1, -1):
        delta = torch.mm(silu_backward(delta, z[k]), theta[2 * k])
    return e, delta


def hand_theta_gradient(theta, x, c):
    z, h = hand_forward(theta, x)
    slope = [c.sum().reshape(1), torch.mv(h[-1].t(), c).unsqueeze(0)]
    delta = c.unsqueeze(1) * theta[-2]
    for k in range(len(z) - 1, -1, -1):
        delta = silu_backward(delta, z[k])
        slope += [delta.sum(0), torch.mm(delta.t(), h[k])]
        if k:
            delta = torch.mm(delta, theta[2 * k])
    return slope[::-1]


WRITTEN = {"autograd": (energy, auto_energy_gradient, auto_theta_gradient),
           "hand": (energy, hand_energy_gradient, hand_theta_gradient)}


def compiled():
    """The hand-written passes through torch.compile; an older PyTorch, or one without a C++ compiler, has none."""
    if not hasattr(torch, "compile"):
        return None
    try:
        made = tuple(torch.compile(f, dynamic=False) for f in WRITTEN["hand"])
        theta, x = random_network(), torch.zeros(8, 2)
        with torch.no_grad():
            made[0](theta, x), made[1](theta, x), made[2](theta, x, torch.zeros(8))
        return made
    except Exception as error:
        print(f"# torch.compile does not work here: {str(error).splitlines()[0]}")
        return None


class Arrangement:
    """How the passes are written and cut: tile = 0 takes all particles at once; workers > 1 take tiles in turn, each
    with a thread of its own, instead of sharing every operation."""

    def __init__(self, written, tile, workers):
        self.energy, self.energy_gradient, self.theta_gradient = WRITTEN[written]
        self.tile = tile
        self.name = f"{written}, tile {tile or 'none'}, " + ("workers" if workers > 1 else "threads in operations")
        self.pool = ThreadPoolExecutor(workers, initializer=self._alone) if workers > 1 else None

    @staticmethod
    def _alone():
        torch.set_num_threads(1)
        torch.set_grad_enabled(False)

    def _tiles(self, f, theta, *arrays):
        if not self.tile:
            return [f(theta, *arrays)]
        parts = zip(*(a.split(self.tile) for a in arrays))
        if not self.pool:
            return [f(theta, *part) for part in parts]
        return list(self.pool.map(lambda part: f(theta, *part), parts))

    def each(self, f, theta, x):
        """f, particle by particle."""
        out = self._tiles(f, theta, x)
        if len(out) == 1:
            return out[0]
        return torch.cat(out) if torch.is_tensor(out[0]) else tuple(torch.cat(o) for o in zip(*out))

    def total(self, f, theta, x, c):
        """f, summed over the particles."""
        out = self._tiles(f, theta, x, c)
        total = list(out[0])
        for more in out[1:]:
            torch._foreach_add_(total, list(more))
        return total


# ------------------------------------------------------------------------------------------------ one iteration


def half_weight(here, there, e, g, gamma):
    return e + 0.5 * ((there - here) * g).sum(1) + (0.25 * gamma) * (g * g).sum(1)


class Tuning:
    """The state of a run; the optimiser owns theta and steps in place."""

    def __init__(self, way, theta, x):
        self.way, self.theta0 = way, [t.clone() for t in theta]
        self.theta = [t.clone().requires_grad_() for t in theta]
        self.view = [t.detach() for t in self.theta]
        self.x, self.logw, self.gamma = x.clone(), torch.zeros(len(x)), 0.005
        self.steps = torch.arange(len(x), dtype=torch.float32)
        try:
            self.adam = torch.optim.Adam(self.theta, lr=RATE, fused=True)
            self._adam_step_works()
        except Exception:  # an older PyTorch fuses on a GPU only
            self.adam = torch.optim.Adam(self.theta, lr=RATE, foreach=True)

    def _adam_step_works(self):
        probe = torch.zeros(1, requires_grad=True)
        probe.grad = torch.zeros(1)
        torch.optim.Adam([probe], lr=RATE, fused=True).step()

    def _clipped(self, slope):
        size = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(slope)))
        torch._foreach_mul_(slope, float(torch.clamp(CLIP / (size + 1e-6), max=1)))
        return size

    @torch.no_grad()
    def iterate(self):
        way, x, gamma, n = self.way, self.x, self.gamma, len(self.x)
        w = torch.softmax(self.logw, 0)
        e, g = way.each(way.energy_gradient, self.view, x)
        moved = torch.randn_like(x).mul_((2 * gamma) ** 0.5).add_(x).sub_(g, alpha=gamma)
        forth = half_weight(x, moved, e, g, gamma)

        score = e.sub_(way.each(way.energy, self.theta0, x)).mul_(BETA).add_(x[:, 1] < 0)
        slope = way.total(way.theta_gradient, self.view, x, w * (score - torch.dot(w, score)))
        size = self._clipped(slope)
        for t, s in zip(self.theta, slope):
            t.grad = s
        self.adam.step()

        e, g = way.each(way.energy_gradient, self.view, moved)
        self.logw += forth.sub_(half_weight(moved, x, e, g, gamma))
        self.logw -= self.logw.max()
        w = torch.softmax(self.logw, 0)
        ess = float(1 / (torch.dot(w, w) + 1e-12))
        self.gamma = max(gamma / 1.01, 1e-8) if ess < 0.95 * n else min(gamma * 1.01, 1e-2)
        if ess < 0.9 * n:
            points = (self.steps + torch.rand(1)) / n
            moved = moved[torch.searchsorted(torch.cumsum(w, 0), points).clamp_(max=n - 1)]
            self.logw.zero_()
        self.x = moved
        return ess, size


# ------------------------------------------------------------------------------------------------ measuring, checking


def fastest(call, seconds):
    """Other work on the machine only ever adds time, hence the best call. Compilers need two calls to settle."""
    call()
    call()
    best, start, count = np.inf, time.perf_counter(), 0
    while time.perf_counter() - start < seconds or count < 10:
        t = time.perf_counter()
        call()
        best, count = min(best, time.perf_counter() - t), count + 1
    return best


@torch.no_grad()
def time_energy_gradient(way, theta, x, seconds):
    return fastest(lambda: way.each(way.energy_gradient, theta, x), seconds)


def time_iteration(way, theta, x, seconds):
    return fastest(Tuning(way, theta, x).iterate, seconds)


def measure(arguments):
    theta = load(arguments.model) if arguments.model else random_network()
    x = torch.from_numpy(np.random.default_rng(1).uniform(-6, 6, (arguments.particles, 2)).astype(np.float32))
    made = compiled()
    if made:
        WRITTEN["compiled"] = made
    ways = [Arrangement(written, tile, workers) for written in WRITTEN for tile in (0, 500, 1000)
            for workers in range(1, arguments.threads + 1) if tile or workers == 1]
    print(f"# PyTorch {torch.__version__}, MKL {torch.backends.mkl.is_available()}")
    for name, clock in (("energy_gradient", time_energy_gradient), ("iteration", time_iteration)):
        best = whole = np.inf
        for way in ways:
            torch.set_num_threads(1 if way.pool else arguments.threads)
            took = clock(way, theta, x, arguments.seconds)
            print(f"# {name}, {way.name}: {took:.6f}", flush=True)
            best = min(best, took)
            if way.tile == 0 and way.name.startswith("autograd"):
                whole = min(whole, took)
        print(f"{name} {best:.6f}\n{name}_whole {whole:.6f}", flush=True)


def differs(name, got, want, tolerance):
    error = np.abs(got.numpy().astype(np.float64) - want).max() / np.abs(want).max()
    print(f"{name}: largest error {error:.2e} of the largest value, {tolerance:.0e} allowed")
    return not error <= tolerance


def check(path):
    """Energy and gradients of every arrangement, then three iterations from nearly settled particles to look at."""
    theta, wrong, names = load(path), 0, [f"layer{k}_{part}" for k in range(1, len(SIZES)) for part in ("weight", "bias")]
    with np.load(path.replace(".npz", "_reference.npz")) as file:
        reference = {name: file[name] for name in file}
    x, coef = torch.from_numpy(reference["x"]), torch.from_numpy(reference["coef"].astype(np.float32))
    made = compiled()
    if made:
        WRITTEN["compiled"] = made
    torch.manual_seed(0)
    with torch.no_grad():
        for way in [Arrangement(written, tile, 1) for written in WRITTEN for tile in (0, 16)]:
            e, g = way.each(way.energy_gradient, theta, x)
            wrong += differs(f"energy ({way.name})", e, reference["energy"], 1e-5)
            wrong += differs(f"grad_x ({way.name})", g, reference["grad_x"], 1e-5)
            for name, slope in zip(names, way.total(way.theta_gradient, theta, x, coef)):
                wrong += differs(f"{name} ({way.name})", slope, reference[f"dcE_d_{name}"], 1e-5)
        way = Arrangement("hand", 500, 1)
        x = torch.rand(10000, 2) * 12 - 6
        for _ in range(300):
            x += 0.1 * torch.randn_like(x) - 0.005 * way.each(way.energy_gradient, theta, x)[1]
    tuning = Tuning(way, theta, x)
    for k in range(3):
        ess, size = tuning.iterate()
        print(f"iteration {k}: ESS {ess:.0f}, gradient norm {size:.3f}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(check(OPTIONS.check) if OPTIONS.check else measure(OPTIONS))
