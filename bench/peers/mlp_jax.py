"""The energy network 2-128-128-128-128-1 (SiLU, single precision) in jitted JAX, as a peer for bench/mlp.

    python mlp_jax.py --threads 1|2 [--seconds S] [--model FILE.npz]     lines `name seconds`, the best of many calls
    python mlp_jax.py --check FILE.npz         energy and gradients against FILE_reference.npz; exit status 1 if they differ

`energy_gradient` is E and grad_x E of all particles, `iteration` one whole SOSMC-ULA tuning iteration in the order of the
published programs, compiled as one function. Each is measured in several arrangements of the same arithmetic (all
particles at once, tiles that stay in cache, tiles on one device per core) and the fastest counts; lines that begin with #
say which.
"""
import sys

import common

OPTIONS = common.options(10000, "layerK_weight and layerK_bias")
common.settle_jax(OPTIONS.threads)

import jax
import jax.numpy as jnp
import numpy as np
import tuning_jax as tuning

SIZES = (2, 128, 128, 128, 128, 1)
TASK = tuning.Task(reward=lambda x: x[:, 1] < 0, beta=0.25, rate=2e-4, clip=1000.0, gamma=0.005, factor=1.01,
                   gamma_max=1e-2)


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


def measure(arguments):
    theta = load(arguments.model) if arguments.model else random_network()
    x = jnp.asarray(np.random.default_rng(1).uniform(-6, 6, (arguments.particles, 2)), jnp.float32)
    ways = tuning.arrangements({"": (energy, True, (0, 200, 500, 1000))}, arguments.particles, arguments.threads)
    common.measure({
        "energy_gradient": lambda way, s: tuning.time_energy_gradient(way, theta, x, s),
        "iteration": lambda way, s: tuning.time_iteration(tuning.iteration, TASK, way, theta, x, s)}, ways,
        arguments.seconds)


def check(path):
    """Energy and gradients of every arrangement, then three iterations from nearly settled particles to look at."""
    theta, wrong = load(path), 0
    with np.load(path.replace(".npz", "_reference.npz")) as file:
        reference = {name: file[name] for name in file}
    x, coef = jnp.asarray(reference["x"]), jnp.asarray(reference["coef"], jnp.float32)
    for way in (tuning.Arrangement(energy, "", 0, 1), tuning.Arrangement(energy, "", 16, 1)):
        e, g = jax.jit(lambda t, y, way=way: way.each(way.energy_gradient, t, y))(theta, x)
        slope = jax.jit(lambda t, y, c, way=way: way.total(way.theta_gradient, t, y, c))(theta, x, coef)
        wrong += common.differs(f"energy ({way.name})", e, reference["energy"], 1e-5)
        wrong += common.differs(f"grad_x ({way.name})", g, reference["grad_x"], 1e-5)
        for k, (weight, bias) in enumerate(slope, 1):
            wrong += common.differs(f"weight {k} ({way.name})", weight.T, reference[f"dcE_d_layer{k}_weight"], 1e-5)
            wrong += common.differs(f"bias {k} ({way.name})", bias, reference[f"dcE_d_layer{k}_bias"], 1e-5)
    way, key, gamma = tuning.Arrangement(energy, "", 500, 1), jax.random.key(1), TASK.gamma

    def langevin(k, y):
        noise = jax.random.normal(jax.random.fold_in(key, k), y.shape)
        return y - gamma * way.each(way.energy_gradient, theta, y)[1] + np.sqrt(2 * gamma).astype(np.float32) * noise

    x = jnp.asarray(np.random.default_rng(1).uniform(-6, 6, (10000, 2)), jnp.float32)
    x = jax.jit(lambda y: jax.lax.fori_loop(0, 300, langevin, y))(x)
    state = tuning.begin(TASK, way, theta, x)
    step = jax.jit(lambda theta0, state: tuning.iteration(TASK, way, theta0, state))
    for k in range(3):
        state, (ess, size) = step(theta, state)
        print(f"iteration {k}: ESS {ess:.0f}, gradient norm {size:.3f}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(check(OPTIONS.check) if OPTIONS.check else measure(OPTIONS))
