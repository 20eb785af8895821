"""What the Python package costs, as ratios that are measured in one run: processor time on one core, the best of many blocks.

    PYTHONPATH=build/python build/venv/bin/python bench/python/bench.py [PART...] [--base build/bench/python_base] [--seconds 3]

    callables   empty Python callables against empty C ones: at most 8 us more per iteration
    numpy       a Gaussian of NumPy, N = 10,000, d = 2, against the loop written by hand in NumPy: at most a quarter
    jax         from_jax, energy network 2-128x4-1, N = 10,000, against jitted loops written by hand: at most 1.03 of the one that
                keeps its energies, at most 0.6 of the published one
    torch       from_torch, the same network, against the sum of its passes: at most 1.05

All parts that are installed are measured unless some are named. The exit status is 1 where a figure is missed.
"""
from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "peers"))

import common  # noqa: E402  (sets the process's surroundings before NumPy, JAX and PyTorch start)

PARTS = ("callables", "numpy", "jax", "torch")
PARSER = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
PARSER.add_argument("parts", nargs="*", metavar="PART")
PARSER.add_argument("--base", default=str(HERE.parents[1] / "build" / "bench" / "python_base"))
PARSER.add_argument("--seconds", type=float, default=3.0, help="processor time for each measurement")
OPTIONS = PARSER.parse_args()
for part in OPTIONS.parts:
    if part not in PARTS:
        PARSER.error(f"unknown part {part}; the parts are {', '.join(PARTS)}")
os.environ.setdefault("OMP_NUM_THREADS", "1")
common.settle_jax(1)

import numpy as np  # noqa: E402

import sosmc  # noqa: E402

MISSED: list[str] = []


def best(call, seconds=None):
    """Processor seconds of the fastest call."""
    call()
    least, spent = np.inf, 0.0
    while spent < (seconds or OPTIONS.seconds):
        begun = time.process_time()
        call()
        took = time.process_time() - begun
        least, spent = min(least, took), spent + took
    return least


def tell(what, value, limit, unit=""):
    verdict = "ok" if value <= limit else "MISSED"
    print(f"{what:66} {value:8.3f}{unit}  (at most {limit}{unit})  {verdict}", flush=True)
    if value > limit:
        MISSED.append(what)


def sampler(model, objective=None, **keywords):
    settings = {"kernel": {"type": "ula", "step": 0.1}, "judge": "none", "optimiser": {"type": "adam", "rate": 0.001}, **keywords}
    return sosmc.Sampler(model, objective or sosmc.mmle(), **settings)


def per_iteration(s, iterations):
    return best(lambda: s.run(iterations)) / iterations


# ---------------------------------------------------------------------------- empty callables


def measure_callables():
    if not Path(OPTIONS.base).exists():
        print(f"callables: {OPTIONS.base} is not there; build the target bench_python_base, or name it by --base")
        return
    rows = json.loads(subprocess.run([OPTIONS.base, "--json"], check=True, capture_output=True, text=True).stdout)
    for n in (64, 1000, 10000):
        alone = min(r["microseconds"] for r in rows if r["particles"] == n and r["tile"] == n)
        model = sosmc.Model(energy_into=lambda t, x, U, gx: None, grad_theta_into=lambda t, x, c, g: None, theta0=np.zeros(2), dim_x=2,
                            tile=sosmc.WHOLE)
        ours = 1e6 * per_iteration(sampler(model, particles=n), max(50, 200000 // n))
        print(f"N = {n}: C {alone:.2f} us, Python {ours:.2f} us")
        tell(f"empty Python callables above empty C ones, N = {n}", ours - alone, 8, " us")


# ---------------------------------------------------------------------------- NumPy


def gaussian(theta, x):
    r = x - theta
    return 0.5 * np.einsum("ij,ij->i", r, r), r


def by_hand(n, d, step=0.1, rate=0.001):
    """The same run as a NumPy user writes it: ULA with weights, systematic resampling, Adam; energies are kept."""
    rng = np.random.default_rng(0)
    theta, x, logw = np.zeros(d), rng.normal(size=(n, d)), np.zeros(n)
    m, v, k = np.zeros(d), np.zeros(d), 0
    U, g = gaussian(theta, x)

    def iteration():
        nonlocal theta, x, logw, m, v, k, U, g
        w = np.exp(logw - logw.max())
        w /= w.sum()
        slope = -(w.sum() * theta - w @ x)
        k += 1
        m, v = 0.9 * m + 0.1 * slope, 0.999 * v + 0.001 * slope**2
        theta = theta - rate * (m / (1 - 0.9**k)) / (np.sqrt(v / (1 - 0.999**k)) + 1e-8)
        moved = x - step * g + np.sqrt(2 * step) * rng.normal(size=x.shape)
        U_new, g_new = gaussian(theta, moved)
        dx = moved - x
        logw = logw + (U + 0.5 * (dx * g).sum(1) + 0.25 * step * (g * g).sum(1)
                       - (U_new - 0.5 * (dx * g_new).sum(1) + 0.25 * step * (g_new * g_new).sum(1)))
        x, U, g = moved, U_new, g_new
        w = np.exp(logw - logw.max())
        w /= w.sum()
        if 1 / (w @ w) < 0.5 * n:
            chosen = np.searchsorted(np.cumsum(w), (np.arange(n) + rng.random()) / n).clip(max=n - 1)
            x, U, g, logw = x[chosen], U[chosen], g[chosen], np.zeros(n)

    return iteration


def measure_numpy():
    sosmc.keep_memory()
    n, d = 10000, 2
    model = sosmc.Model(gaussian, lambda t, x, c: c.sum() * t - c @ x, theta0=np.zeros(d), dim_x=d)
    ours = per_iteration(sampler(model, particles=n), 50)
    loop = by_hand(n, d)
    theirs = best(lambda: [loop() for _ in range(10)]) / 10
    print(f"NumPy Gaussian, N = {n}, d = {d}: by hand {1e6 * theirs:.0f} us, sosmc {1e6 * ours:.0f} us")
    tell("NumPy Gaussian: sosmc over the loop by hand", ours / theirs, 0.25)


# ---------------------------------------------------------------------------- JAX


SIZES = (2, 128, 128, 128, 128, 1)
PARTICLES = 10000


def weights():
    rng = np.random.default_rng(0)
    return [(rng.normal(0, rows**-0.5, (rows, columns)).astype(np.float32), np.zeros(columns, np.float32))
            for rows, columns in zip(SIZES, SIZES[1:])]


def measure_jax():
    try:
        import jax
        import jax.numpy as jnp
        import tuning_jax as tuning
    except ModuleNotFoundError as e:
        print(f"jax: {e.name} is not installed")
        return

    def energy(theta, x):
        for weight, bias in theta[:-1]:
            x = jax.nn.silu(x @ weight + bias)
        weight, bias = theta[-1]
        return x @ weight[:, 0] + bias[0]

    task = tuning.Task(reward=lambda x: x[:, 1] < 0, beta=0.25, rate=2e-4, clip=1000.0, gamma=0.005, factor=1.01, gamma_max=1e-2)
    way = tuning.Arrangement(energy, "", 0, 1, apart=True)
    theta = jax.tree.map(jnp.asarray, weights())
    x = jnp.asarray(np.random.default_rng(1).uniform(-6, 6, (PARTICLES, 2)), jnp.float32)

    def kept(theta0, state):
        """The published iteration, with U and dU/dx of the particles kept for the next one."""
        (x, e, g, logw), theta, m, v, k, gamma, key = state
        key, for_noise, for_points = jax.random.split(key, 3)
        w = jax.nn.softmax(logw)
        score = task.reward(x) + task.beta * (e - energy(theta0, x))
        theta, m, v, size = tuning.adam(task, theta, way.theta_gradient(theta, x, w * (score - w @ score)), m, v, k)
        moved = x - gamma * g + jnp.sqrt(2 * gamma) * jax.random.normal(for_noise, x.shape)
        forth = tuning.half_weight(x, moved, e, g, gamma)
        e, g = way.energy_gradient(theta, moved)
        logw = logw + forth - tuning.half_weight(moved, x, e, g, gamma)
        logw = logw - logw.max()
        w = jax.nn.softmax(logw)
        ess = 1 / (w @ w + 1e-12)
        points = (jnp.arange(PARTICLES, dtype=jnp.float32) + jax.random.uniform(for_points)) / PARTICLES
        chosen = jnp.minimum(jnp.searchsorted(jnp.cumsum(w), points), PARTICLES - 1)
        cloud = jax.lax.cond(ess < 0.9 * PARTICLES, lambda: (moved[chosen], e[chosen], g[chosen], jnp.zeros_like(logw)),
                             lambda: (moved, e, g, logw))
        return (cloud, theta, m, v, k + 1, gamma, key), (ess, size)

    def timed(f, state):
        box = [state]
        compiled = jax.jit(f)

        def call():
            box[0], logged = compiled(theta, box[0])
            jax.block_until_ready((box[0], logged))

        return best(call)

    start = tuning.begin(task, way, theta, x)
    published = timed(lambda theta0, state: tuning.iteration(task, way, theta0, state), start)
    e, g = way.energy_gradient(theta, x)
    keeping = timed(kept, ((x, e, g, jnp.zeros(PARTICLES)), *start[2:]))
    model = sosmc.from_jax(energy, theta0=theta, dim_x=2)
    s = sampler(model, sosmc.reward(lambda x: (x[:, 1] < 0).astype(float), beta=0.25), particles=PARTICLES,
                kernel={"type": "ula", "step": 0.005}, optimiser={"type": "adam", "rate": 2e-4},
                init=sosmc.Law(lambda rng, n: rng.uniform(-6, 6, (n, 2)), exact=True), resampling={"threshold": 0.9})
    ours = per_iteration(s, 5)
    print(f"JAX network, N = {PARTICLES}: published {1e3 * published:.1f} ms, keeping energies {1e3 * keeping:.1f} ms, sosmc {1e3 * ours:.1f} ms")
    tell("from_jax over the jitted loop that keeps its energies", ours / keeping, 1.03)
    tell("from_jax over the published loop", ours / published, 0.6)


# ---------------------------------------------------------------------------- PyTorch


def measure_torch():
    try:
        import torch
    except ModuleNotFoundError as e:
        print(f"torch: {e.name} is not installed")
        return
    torch.set_num_threads(1)
    layers = []
    for k, (weight, bias) in enumerate(weights()):
        layer = torch.nn.Linear(weight.shape[0], weight.shape[1])
        layer.weight.data[:], layer.bias.data[:] = torch.from_numpy(weight.T.copy()), torch.from_numpy(bias)
        layers += [layer] + [torch.nn.SiLU()] * (k + 2 < len(SIZES))

    class Energy(torch.nn.Sequential):
        def forward(self, x):
            return super().forward(x)[:, 0]

    network = Energy(*layers)
    points = torch.from_numpy(np.random.default_rng(1).uniform(-6, 6, (PARTICLES, 2)).astype(np.float32))
    c = torch.full((PARTICLES,), 1 / PARTICLES)

    def slope():
        x = points.clone().requires_grad_(True)
        return torch.autograd.grad(network(x).sum(), x)

    def value():
        with torch.no_grad():
            return network(points)

    def contraction():
        return torch.autograd.grad((c * network(points)).sum(), list(network.parameters()))

    passes = best(slope) + best(value) + best(contraction)
    model = sosmc.from_torch(network, dim_x=2)
    s = sampler(model, sosmc.reward(lambda x: (x[:, 1] < 0).astype(float), beta=0.25), particles=PARTICLES,
                kernel={"type": "ula", "step": 0.005}, optimiser={"type": "adam", "rate": 2e-4},
                init=sosmc.Law(lambda rng, n: rng.uniform(-6, 6, (n, 2)), exact=True), resampling={"threshold": 0.9})
    ours = per_iteration(s, 5)
    print(f"PyTorch network, N = {PARTICLES}: passes {1e3 * passes:.1f} ms, sosmc {1e3 * ours:.1f} ms")
    tell("from_torch over the sum of its passes", ours / passes, 1.05)


if __name__ == "__main__":
    for part in OPTIONS.parts or PARTS:
        globals()[f"measure_{part}"]()
    sys.exit(1 if MISSED else 0)
