"""The convolutional energy of 28 x 28 images (4 convolutions of stride 2, 2 dense layers, SiLU, single precision) in
jitted JAX, as a peer for bench/conv.

    python conv_jax.py --threads 1|2 [--seconds S] [--model FILE.npz]    lines `name seconds`, the best of many calls
    python conv_jax.py --check FILE.npz        energy and gradients against the reference values beside it; exit status 1 if
                                               they differ

`energy_gradient` is E and grad_x E of all images, `iteration` and `impdiff` one whole tuning iteration with SOSMC-ULA and
with implicit diffusion, in the order of the published program. Each is measured in several arrangements of the same
arithmetic (the compiler's convolution on channels first or last, windows cut out for a matrix product; all images at
once, tiles that stay in cache, one device per core) and the fastest counts; lines that begin with # say which.
"""
import sys

import common

OPTIONS = common.options(1000, "conv1_weight, conv1_bias to fc2_bias")
common.settle_jax(OPTIONS.threads)

import jax
import jax.numpy as jnp
import numpy as np
import tuning_jax as tuning

SIDE, STRIDE = 28, 2
SHAPES = {"conv1": (16, 1, 5, 5), "conv2": (32, 16, 3, 3), "conv3": (64, 32, 3, 3), "conv4": (64, 64, 3, 3),
          "fc1": (64, 256), "fc2": (1, 64)}
PADDING = {"conv1": 4, "conv2": 1, "conv3": 1, "conv4": 1}
TASK = tuning.Task(reward=lambda x: jnp.clip(x, -1, 1).mean(1), beta=1, rate=1e-4, clip=1e8, gamma=3e-3, factor=1,
                   gamma_max=1e-2)


def load(path):
    with np.load(path) as file:
        return {name: (jnp.asarray(file[f"{name}_weight"]), jnp.asarray(file[f"{name}_bias"])) for name in SHAPES}


def random_network():
    rng = np.random.default_rng(0)

    def uniform(shape, fan_in):
        return jnp.asarray(rng.uniform(-fan_in**-0.5, fan_in**-0.5, shape), jnp.float32)

    return {name: (uniform(shape, np.prod(shape[1:])), uniform(shape[0], np.prod(shape[1:])))
            for name, shape in SHAPES.items()}


def dense(theta, x):
    """The last two layers, and the sign: the network gives minus the energy."""
    weight, bias = theta["fc1"]
    x = jax.nn.silu(x @ weight.T + bias)
    weight, bias = theta["fc2"]
    return -(x @ weight[0] + bias[0])


def channels_first(theta, x):
    x = x.reshape(-1, 1, SIDE, SIDE)
    for name, pad in PADDING.items():
        weight, bias = theta[name]
        x = jax.lax.conv_general_dilated(x, weight, (STRIDE, STRIDE), ((pad, pad), (pad, pad)))
        x = jax.nn.silu(x + bias[:, None, None])
    return dense(theta, x.reshape(len(x), -1))


def channels_last(theta, x):
    x = x.reshape(-1, SIDE, SIDE, 1)
    for name, pad in PADDING.items():
        weight, bias = theta[name]
        x = jax.lax.conv_general_dilated(x, weight.transpose(2, 3, 1, 0), (STRIDE, STRIDE), ((pad, pad), (pad, pad)),
                                         dimension_numbers=("NHWC", "HWIO", "NHWC"))
        x = jax.nn.silu(x + bias)
    return dense(theta, x.transpose(0, 3, 1, 2).reshape(len(x), -1))


def windows(theta, x):
    """Convolution as a matrix product: the numbers under every position of the window, side by side."""
    x = x.reshape(-1, SIDE, SIDE, 1)
    for name, pad in PADDING.items():
        weight, bias = theta[name]
        kernel, side = weight.shape[2], (x.shape[1] + 2 * pad - weight.shape[2]) // STRIDE + 1
        x, reach = jnp.pad(x, ((0, 0), (pad, pad), (pad, pad), (0, 0))), STRIDE * (side - 1) + 1
        x = jnp.concatenate([x[:, a:a + reach:STRIDE, b:b + reach:STRIDE] for a in range(kernel)
                             for b in range(kernel)], 3)
        x = jax.nn.silu(x @ weight.transpose(2, 3, 1, 0).reshape(-1, len(bias)) + bias)
    return dense(theta, x.transpose(0, 3, 1, 2).reshape(len(x), -1))


# the compiler has no fast convolution inside a loop, so only the products are cut into tiles
WRITTEN = {"channels first": (channels_first, True, (0,)), "channels last": (channels_last, True, (0,)),
           "windows": (windows, False, (20, 50))}


def measure(arguments):
    theta = load(arguments.model) if arguments.model else random_network()
    x = np.random.default_rng(1).uniform(-1, 1, (arguments.particles, SIDE * SIDE))
    x = jnp.asarray(x, jnp.float32)
    ways = tuning.arrangements(WRITTEN, arguments.particles, arguments.threads)
    common.measure({
        "energy_gradient": lambda way, s: tuning.time_energy_gradient(way, theta, x, s),
        "iteration": lambda way, s: tuning.time_iteration(tuning.iteration, TASK, way, theta, x, s),
        "impdiff": lambda way, s: tuning.time_iteration(tuning.impdiff, TASK, way, theta, x, s)}, ways,
        arguments.seconds)


def check(path):
    """Energy and gradients of every arrangement, then three iterations of each method to look at."""
    theta, wrong = load(path), 0
    with np.load(path.replace("_checkpoint", "_reference")) as file:
        reference = {name: file[name] for name in file}
    x = jnp.asarray(reference["x"]).reshape(-1, SIDE * SIDE)
    mean = jnp.full(len(x), 1 / len(x), jnp.float32)
    for way in [tuning.Arrangement(energy, name, tile, 1) for name, (energy, _, _) in WRITTEN.items() for tile in (0, 4)]:
        e, g = jax.jit(lambda t, y, way=way: way.each(way.energy_gradient, t, y))(theta, x)
        slope = jax.jit(lambda t, y, c, way=way: way.total(way.theta_gradient, t, y, c))(theta, x, mean)
        wrong += common.differs(f"energy ({way.name})", e, reference["energy"], 1e-5)
        wrong += common.differs(f"grad_x ({way.name})", g, reference["grad_x"].reshape(len(x), -1), 1e-5)
        for name in SHAPES:
            for part, value in zip(("weight", "bias"), slope[name]):
                wrong += common.differs(f"{name} {part} ({way.name})", value, reference[f"dmeanE_d_{name}_{part}"], 1e-5)
    x = jnp.tile(x[:4], (250, 1))
    for method in (tuning.iteration, tuning.impdiff):
        way = tuning.Arrangement(channels_last, "", 0, 1)
        state, step = tuning.begin(TASK, way, theta, x), jax.jit(lambda theta0, state, f=method: f(TASK, way, theta0, state))
        for k in range(3):
            state, (ess, size) = step(theta, state)
            print(f"{method.__name__} {k}: ESS {ess:.1f}, gradient norm {size:.4f}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(check(OPTIONS.check) if OPTIONS.check else measure(OPTIONS))
