"""What an iteration of a model from JAX or PyTorch costs beside the loop that its user would write, and beside its passes alone.

    PYTHONPATH=build/python python bench/python/frameworks.py jax|torch [--particles N] [--rounds R]

The network 2-128-128-128-128-1 (SiLU, single precision) is tuned by a reward with a divergence from where it started: an iteration is
one energy with its gradient in x, one energy under the first parameters, and one contraction. All that is compared runs in this process, one after
the other and again and again; figures are processor time, the best of all rounds, because other work on the machine only ever adds to it. One
core, and memory that stays with the process (bench/peers/common.py). The last column is the ratio that is promised.
"""
from __future__ import annotations

import argparse
import importlib.util
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "peers"))
import common

PARSER = argparse.ArgumentParser()
PARSER.add_argument("framework", choices=("jax", "torch"))
PARSER.add_argument("--particles", type=int, default=10000)
PARSER.add_argument("--rounds", type=int, default=25)
OPTIONS = PARSER.parse_args()
if importlib.util.find_spec(OPTIONS.framework) is None:
    print(f"{OPTIONS.framework} is not installed: nothing measured")
    sys.exit(0)
(common.settle_jax if OPTIONS.framework == "jax" else common.settle_torch)(1)
sys.argv = sys.argv[:1]  # the peers read it too

import numpy as np
import sosmc

SIZES = (2, 128, 128, 128, 128, 1)
BETA, STEP, RATE = 0.25, 0.005, 2e-4
START = np.random.default_rng(1).uniform(-6, 6, (OPTIONS.particles, 2))


def weights():
    rng = np.random.default_rng(0)
    return [(rng.normal(0, rows**-0.5, (rows, columns)).astype(np.float32), np.zeros(columns, np.float32))
            for rows, columns in zip(SIZES, SIZES[1:])]


def fastest(calls, rounds):
    """Milliseconds of every call: the best of so many rounds, in which each has its turn."""
    best = dict.fromkeys(calls, np.inf)
    for call in calls.values():
        call()
        call()
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.process_time()
            call()
            best[name] = min(best[name], 1000 * (time.process_time() - start))
    return best


def sampler(model):
    return sosmc.Sampler(model, sosmc.reward(lambda x: x[:, 1] < 0.0, beta=BETA), kernel={"type": "ula", "step": STEP},
                         optimiser={"type": "adam", "rate": RATE}, particles=OPTIONS.particles, init=START, scheme="sosmc", judge="none")


def jax_calls():
    import jax
    import jax.numpy as jnp
    import tuning_jax as tuning

    def energy(theta, x):
        for weight, bias in theta[:-1]:
            x = jax.nn.silu(x @ weight + bias)
        weight, bias = theta[-1]
        return x @ weight[:, 0] + bias[0]

    task = tuning.Task(reward=lambda x: x[:, 1] < 0, beta=BETA, rate=RATE, clip=1e9, gamma=STEP, factor=1.0, gamma_max=STEP)
    way = tuning.Arrangement(energy, "", 0, 1)
    theta0, x0 = jax.tree.map(jnp.asarray, weights()), jnp.asarray(START, jnp.float32)

    def keeping(theta0, state):
        """The same algorithm; the energies and gradients of the particles stay with them."""
        x, e, g, logw, theta, m, v, k, key = state
        key, for_noise, for_points = jax.random.split(key, 3)
        moved = x - STEP * g + jnp.sqrt(2 * STEP) * jax.random.normal(for_noise, x.shape)
        e_new, g_new = way.energy_gradient(theta, moved)
        logw = logw + tuning.half_weight(x, moved, e, g, STEP) - tuning.half_weight(moved, x, e_new, g_new, STEP)
        logw = logw - logw.max()
        w = jax.nn.softmax(logw)
        score = task.reward(moved) + BETA * (e_new - energy(theta0, moved))
        slope = way.theta_gradient(theta, moved, w * (score - w @ score))
        theta, m, v, _ = tuning.adam(task, theta, slope, m, v, k)

        def again():
            n = len(w)
            points = (jnp.arange(n, dtype=jnp.float32) + jax.random.uniform(for_points)) / n
            at = jnp.minimum(jnp.searchsorted(jnp.cumsum(w), points), n - 1)
            return moved[at], e_new[at], g_new[at], jnp.zeros_like(logw)

        x, e, g, logw = jax.lax.cond(1 / (w @ w) < 0.5 * len(w), again, lambda: (moved, e_new, g_new, logw))
        return x, e, g, logw, theta, m, v, k + 1, key

    def stepping(function, state):
        compiled = jax.jit(function)
        box = [state]

        def call():
            box[0] = jax.block_until_ready(compiled(theta0, box[0]))

        return call

    zeros = jax.tree.map(jnp.zeros_like, theta0)
    kept = (x0, *way.energy_gradient(theta0, x0), jnp.zeros(len(x0)), theta0, zeros, zeros, jnp.float32(1), jax.random.key(0))
    published = stepping(lambda t, s: tuning.iteration(task, way, t, s)[0], tuning.begin(task, way, theta0, x0))
    shared, alone = (sampler(sosmc.from_jax(energy, theta0, 2, batched=True, share=share)) for share in (True, False))
    return {"loop as published": published, "loop that keeps its energies": stepping(keeping, kept),
            "sosmc, passes apart": alone.step, "sosmc": shared.step}


def torch_calls():
    import torch

    def energy(theta, x):
        for weight, bias in zip(theta[:-2:2], theta[1:-2:2]):
            x = torch.nn.functional.silu(x @ weight + bias)
        return x @ theta[-2][:, 0] + theta[-1][0]

    theta = [torch.from_numpy(a) for layer in weights() for a in layer]
    x, c = torch.from_numpy(START.astype(np.float32)), torch.ones(len(START))

    def energy_gradient():
        at = x.clone().requires_grad_()
        value = energy(theta, at)
        torch.autograd.grad(value, at, torch.ones_like(value))

    def alone():
        with torch.no_grad():
            energy(theta, x)

    def contraction():
        leaves = [t.clone().requires_grad_() for t in theta]
        torch.autograd.grad(energy(leaves, x), leaves, c)

    shared, apart = (sampler(sosmc.from_torch(energy, theta, 2, share=share)) for share in (True, False))
    return {"energy and dU/dx": energy_gradient, "energy": alone, "contraction": contraction, "sosmc, passes apart": apart.step,
            "sosmc": shared.step}


def main():
    sosmc.keep_memory()
    took = fastest(jax_calls() if OPTIONS.framework == "jax" else torch_calls(), OPTIONS.rounds)
    for name, value in took.items():
        print(f"{OPTIONS.framework}  {name:32s} {value:8.2f} ms")
    if OPTIONS.framework == "jax":
        promises = [("loop that keeps its energies", took["loop that keeps its energies"], 1.03),
                    ("loop as published", took["loop as published"], 0.6)]
    else:
        promises = [("sum of the passes", sum(took[name] for name in ("energy and dU/dx", "energy", "contraction")), 1.05)]
    for name, against, limit in promises:
        ratio = took["sosmc"] / against
        print(f"{OPTIONS.framework}  sosmc / {name:30s} {ratio:6.3f}    at most {limit:.2f}: {'yes' if ratio <= limit else 'no'}")


main()
