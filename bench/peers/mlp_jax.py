"""The energy network 2-128-128-128-128-1 (SiLU, single precision) in jitted JAX, as a peer for bench/mlp.

    python mlp_jax.py --threads 1|2 [--seconds S] [--model FILE.npz]     lines `name seconds`, the best of many calls
    python mlp_jax.py --check FILE.npz         energy and gradients against FILE_reference.npz; exit status 1 if they differ

`energy_gradient` is E and grad_x E of all particles, `iteration` one whole SOSMC-ULA tuning iteration in the order of the
published programs, compiled as one function. Each is measured in several arrangements of the same arithmetic (all
particles at once, tiles that stay in cache, tiles on one device per core) and the fastest counts; lines that begin with #
say which. Temporaries are kept by the allocator: when every call returned them to the system, the untiled pass took half as
long again.
"""
import argparse
import os
import sys
import time

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


def settle(threads):
    """Cores, allocator and flags are read when a process or a library starts: set them, then start again."""
    if os.environ.get("MLP_PEER_SETTLED") == "1":
        return
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    flags = "--xla_force_host_platform_device_count=2" if threads == 2 else "--xla_cpu_multi_thread_eigen=false"
    os.environ.update(KEEP_MEMORY, MLP_PEER_SETTLED="1", JAX_PLATFORMS="cpu",
                      XLA_FLAGS=(os.environ.get("XLA_FLAGS", "") + " " + flags).strip())
    os.execv(sys.executable, [sys.executable] + sys.argv)


OPTIONS = options()
settle(OPTIONS.threads)

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

SIZES = (2, 128, 128, 128, 128, 1)
BETA, RATE, CLIP = 0.25, 2e-4, 1000.0
EVERYWHERE, SPLIT = PartitionSpec(), PartitionSpec("particles")


def load(path):
    with np.load(path) as file:
        return [(jnp.asarray(file[f"layer{k}_weight"].T), jnp.asarray(file[f"layer{k}_bias"]))
                for k in range(1, len(SIZES))]


def random_network():
    rng = np.random.default_rng(0)
    return [(jnp.asarray(rng.normal(0, rows**-0.5, (rows, columns)), jnp.float32), jnp.zeros(columns, jnp.float32))
            for rows, columns in zip(SIZES, SIZES[1:])]


def energy(theta, x):
    for weight, bias in theta[:-1]:
        x = jax.nn.silu(x @ weight + bias)
    weight, bias = theta[-1]
    return x @ weight[:, 0] + bias[0]


def energy_gradient(theta, x):
    e, pull = jax.vjp(lambda y: energy(theta, y), x)
    return e, pull(jnp.ones_like(e))[0]


def theta_gradient(theta, x, c):
    return jax.grad(lambda t: jnp.vdot(c, energy(t, x)))(theta)


class Arrangement:
    """How the passes over the particles are cut: tile = 0 takes all at once; devices > 1 shares them out."""

    def __init__(self, tile, devices):
        self.tile, self.name = tile, f"tile {tile or 'none'}, {devices} device" + "s" * (devices > 1)
        self.mesh = Mesh(np.array(jax.devices()[:devices]), ("particles",)) if devices > 1 else None

    def place(self, array, spec=EVERYWHERE):
        return jax.device_put(array, NamedSharding(self.mesh, spec)) if self.mesh else array

    def _share(self, f, arrays, out):
        if not self.mesh:
            return f
        return jax.shard_map(f, mesh=self.mesh, in_specs=(EVERYWHERE,) + (SPLIT,) * arrays, out_specs=out,
                             check_vma=False)

    def _cut(self, array):
        return array.reshape(-1, self.tile, *array.shape[1:])

    def each(self, f, theta, x):
        """f, particle by particle."""
        def run(theta, x):
            if not self.tile:
                return f(theta, x)
            out = jax.lax.map(lambda part: f(theta, part), self._cut(x))
            return jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:]), out)

        return self._share(run, 1, SPLIT)(theta, x)

    def total(self, f, theta, x, c):
        """f, summed over the particles."""
        def run(theta, x, c):
            if not self.tile:
                out = f(theta, x, c)
            else:
                def add(total, part):
                    return jax.tree.map(jnp.add, total, f(theta, *part)), None
                out = jax.lax.scan(add, jax.tree.map(jnp.zeros_like, theta), (self._cut(x), self._cut(c)))[0]
            return jax.lax.psum(out, "particles") if self.mesh else out

        return self._share(run, 2, EVERYWHERE)(theta, x, c)


def norm(tree):
    return jnp.sqrt(sum(jnp.vdot(leaf, leaf) for leaf in jax.tree.leaves(tree)))


def adam(theta, g, m, v, k):
    size = norm(g)
    g = jax.tree.map(lambda a: a * jnp.minimum(1, CLIP / (size + 1e-6)), g)
    m = jax.tree.map(lambda a, b: 0.9 * a + 0.1 * b, m, g)
    v = jax.tree.map(lambda a, b: 0.999 * a + 0.001 * b * b, v, g)
    rate, unbias = RATE / (1 - 0.9**k), 1 / jnp.sqrt(1 - 0.999**k)
    step = jax.tree.map(lambda t, a, b: t - rate * a / (jnp.sqrt(b) * unbias + 1e-8), theta, m, v)
    return step, m, v, size


def half_weight(here, there, e, g, gamma):
    return e + 0.5 * jnp.sum((there - here) * g, 1) + 0.25 * gamma * jnp.sum(g * g, 1)


def resample(key, x, w):
    n = x.shape[0]
    points = (jnp.arange(n, dtype=jnp.float32) + jax.random.uniform(key)) / n
    return x[jnp.minimum(jnp.searchsorted(jnp.cumsum(w), points), n - 1)]


def iteration(way, theta0, state):
    x, logw, theta, m, v, k, gamma, key = state
    n = x.shape[0]
    key, for_noise, for_points = jax.random.split(key, 3)
    w = jax.nn.softmax(logw)
    e, g = way.each(energy_gradient, theta, x)
    moved = x - gamma * g + jnp.sqrt(2 * gamma) * jax.random.normal(for_noise, x.shape)
    forth = half_weight(x, moved, e, g, gamma)

    score = (x[:, 1] < 0) + BETA * (e - way.each(energy, theta0, x))
    slope = way.total(theta_gradient, theta, x, w * (score - w @ score))
    theta, m, v, size = adam(theta, slope, m, v, k)

    e, g = way.each(energy_gradient, theta, moved)
    logw = logw + forth - half_weight(moved, x, e, g, gamma)
    logw = logw - logw.max()
    w = jax.nn.softmax(logw)
    ess = 1 / (w @ w + 1e-12)
    gamma = jnp.where(ess < 0.95 * n, jnp.maximum(gamma / 1.01, 1e-8), jnp.minimum(gamma * 1.01, 1e-2))
    x, logw = jax.lax.cond(ess < 0.9 * n, lambda: (resample(for_points, moved, w), jnp.zeros_like(logw)),
                           lambda: (moved, logw))
    return (x, logw, theta, m, v, k + 1, gamma, key), (ess, size)


def begin(way, theta, x):
    zeros = jax.tree.map(jnp.zeros_like, theta)
    rest = way.place((theta, zeros, jax.tree.map(jnp.zeros_like, theta), jnp.float32(1), jnp.float32(0.005),
                      jax.random.key(0)))
    return (way.place(x, SPLIT), way.place(jnp.zeros(len(x), jnp.float32), SPLIT)) + rest


def fastest(call, seconds):
    """Other work on the machine only ever adds time, hence the best call."""
    call()
    best, start, count = np.inf, time.perf_counter(), 0
    while time.perf_counter() - start < seconds or count < 10:
        t = time.perf_counter()
        call()
        best, count = min(best, time.perf_counter() - t), count + 1
    return best


def time_energy_gradient(way, theta, x, seconds):
    f = jax.jit(lambda theta, x: way.each(energy_gradient, theta, x))
    theta, x = way.place(theta), way.place(x, SPLIT)
    return fastest(lambda: jax.block_until_ready(f(theta, x)), seconds)


def time_iteration(way, theta, x, seconds):
    # the reference's weights are arguments like theta's: constants would let the compiler fold what a run may not
    f = jax.jit(lambda theta0, state: iteration(way, theta0, state))
    theta0, state = way.place(theta), begin(way, theta, x)

    def call():
        nonlocal state
        state, logged = f(theta0, state)
        jax.block_until_ready((state, logged))

    return fastest(call, seconds)


def measure(arguments):
    theta = load(arguments.model) if arguments.model else random_network()
    x = jnp.asarray(np.random.default_rng(1).uniform(-6, 6, (arguments.particles, 2)), jnp.float32)
    ways = [Arrangement(tile, devices) for devices in range(1, arguments.threads + 1) for tile in (0, 200, 500, 1000)
            if tile == 0 or arguments.particles % (devices * tile) == 0]
    for name, clock in (("energy_gradient", time_energy_gradient), ("iteration", time_iteration)):
        best = whole = np.inf
        for way in ways:
            took = clock(way, theta, x, arguments.seconds)
            print(f"# {name}, {way.name}: {took:.6f}", flush=True)
            best = min(best, took)
            if way.tile == 0:
                whole = min(whole, took)
        print(f"{name} {best:.6f}\n{name}_whole {whole:.6f}", flush=True)


def differs(name, got, want, tolerance):
    error = np.abs(np.asarray(got, np.float64) - want).max() / np.abs(want).max()
    print(f"{name}: largest error {error:.2e} of the largest value, {tolerance:.0e} allowed")
    return not error <= tolerance


def check(path):
    """Energy and gradients of every arrangement, then three iterations from nearly settled particles to look at."""
    theta, wrong = load(path), 0
    with np.load(path.replace(".npz", "_reference.npz")) as file:
        reference = {name: file[name] for name in file}
    x, coef = jnp.asarray(reference["x"]), jnp.asarray(reference["coef"], jnp.float32)
    for way in (Arrangement(0, 1), Arrangement(16, 1)):
        e, g = jax.jit(lambda t, y, way=way: way.each(energy_gradient, t, y))(theta, x)
        slope = jax.jit(lambda t, y, c, way=way: way.total(theta_gradient, t, y, c))(theta, x, coef)
        wrong += differs(f"energy ({way.name})", e, reference["energy"], 1e-5)
        wrong += differs(f"grad_x ({way.name})", g, reference["grad_x"], 1e-5)
        for k, (weight, bias) in enumerate(slope, 1):
            wrong += differs(f"weight {k} ({way.name})", weight.T, reference[f"dcE_d_layer{k}_weight"], 1e-5)
            wrong += differs(f"bias {k} ({way.name})", bias, reference[f"dcE_d_layer{k}_bias"], 1e-5)
    way, key, gamma = Arrangement(500, 1), jax.random.key(1), 0.005

    def langevin(k, y):
        noise = jax.random.normal(jax.random.fold_in(key, k), y.shape)
        return y - gamma * way.each(energy_gradient, theta, y)[1] + np.sqrt(2 * gamma).astype(np.float32) * noise

    x = jnp.asarray(np.random.default_rng(1).uniform(-6, 6, (10000, 2)), jnp.float32)
    x = jax.jit(lambda y: jax.lax.fori_loop(0, 300, langevin, y))(x)
    state, step = begin(way, theta, x), jax.jit(lambda theta0, state: iteration(way, theta0, state))
    for k in range(3):
        state, (ess, size) = step(theta, state)
        print(f"iteration {k}: ESS {ess:.0f}, gradient norm {size:.3f}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(check(OPTIONS.check) if OPTIONS.check else measure(OPTIONS))
