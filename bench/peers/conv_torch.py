"""The convolutional energy of 28 x 28 images (4 convolutions of stride 2, 2 dense layers, SiLU, single precision) in
PyTorch, as a peer for bench/conv.

    python conv_torch.py --threads 1|2 [--seconds S] [--model FILE.npz]  lines `name seconds`, the best of many calls
    python conv_torch.py --check FILE.npz      energy and gradients against the reference values beside it; exit status 1 if
                                               they differ

`energy_gradient` is E and grad_x E of all images, `iteration` and `impdiff` one whole tuning iteration with SOSMC-ULA and
with implicit diffusion, in the order of the published program. Each is measured in several arrangements of the same
arithmetic (PyTorch's convolution on channels first or last; the first layer as a matrix product of windows cut out; the
same compiled where torch.compile exists; all images at once, tiles that stay in cache, tiles shared by two workers) and
the fastest counts; lines that begin with # say which. Other ways were slower: all layers as products three times, PyTorch's
own convolution instead of oneDNN's half as long again.
"""
import sys

import common

if __name__ == "__main__":
    OPTIONS = common.options(1000, "conv1_weight, conv1_bias to fc2_bias")
    common.settle_torch(OPTIONS.threads)

import numpy as np
import torch
import tuning_torch as tuning
from torch.nn.functional import conv2d, linear, silu, unfold

SIDE, STRIDE = 28, 2
SHAPES = {"conv1": (16, 1, 5, 5), "conv2": (32, 16, 3, 3), "conv3": (64, 32, 3, 3), "conv4": (64, 64, 3, 3),
          "fc1": (64, 256), "fc2": (1, 64)}
PADDING = (4, 1, 1, 1)
TASK = tuning.Task(reward=lambda x: x.clamp(-1, 1).mean(1), beta=1, rate=1e-4, clip=1e8, gamma=3e-3, factor=1,
                   gamma_max=1e-2)


def load(path):
    with np.load(path) as file:
        return [torch.from_numpy(file[f"{name}_{part}"].copy()) for name in SHAPES for part in ("weight", "bias")]


def random_network():
    rng, theta = np.random.default_rng(0), []
    for shape in SHAPES.values():
        limit = np.prod(shape[1:]) ** -0.5
        theta += [torch.from_numpy(rng.uniform(-limit, limit, s).astype(np.float32)) for s in (shape, shape[0])]
    return theta


def dense(theta, x):
    """The last two layers, and the sign: the network gives minus the energy."""
    x = silu(linear(x.flatten(1), theta[8], theta[9]))
    return linear(x, theta[10], theta[11]).squeeze(1).neg()


def energy(theta, x):
    x = x.view(-1, 1, SIDE, SIDE)
    for k, pad in enumerate(PADDING):
        x = silu(conv2d(x, theta[2 * k], theta[2 * k + 1], STRIDE, pad))
    return dense(theta, x)


def channels_last(theta, x):
    x = x.view(-1, 1, SIDE, SIDE)
    for k, pad in enumerate(PADDING):
        weight = theta[2 * k].contiguous(memory_format=torch.channels_last)
        x = silu(conv2d(x.contiguous(memory_format=torch.channels_last), weight, theta[2 * k + 1], STRIDE, pad))
    return dense(theta, x)


def product(weight, bias, x, pad):
    """Convolution as a matrix product: the numbers under every position of the window, side by side."""
    side = (x.shape[2] + 2 * pad - weight.shape[2]) // STRIDE + 1
    cut = unfold(x, weight.shape[2], padding=pad, stride=STRIDE)
    return (torch.matmul(weight.flatten(1), cut) + bias[:, None]).view(len(x), -1, side, side)


def first_as_product(theta, x):
    x = silu(product(theta[0], theta[1], x.view(-1, 1, SIDE, SIDE), PADDING[0]))
    for k, pad in enumerate(PADDING[1:], 1):
        x = silu(conv2d(x, theta[2 * k], theta[2 * k + 1], STRIDE, pad))
    return dense(theta, x)


def written(tile):
    """Every way to write the passes, whether it is what a user would write, and tiles."""
    ways = {"autograd": (energy, True), "channels last": (channels_last, True),
            "first layer as product": (first_as_product, False)}
    ways = {name: (tuning.autograd(f), plain, (0, tile)) for name, (f, plain) in ways.items()}
    made = tuning.compiled(lambda compile: tuning.autograd(compile(energy)), random_network(), torch.zeros(8, SIDE * SIDE))
    if made:
        ways["compiled"] = (made, False, (0, tile))
    return ways


def measure(arguments):
    theta = load(arguments.model) if arguments.model else random_network()
    x = np.random.default_rng(1).uniform(-1, 1, (arguments.particles, SIDE * SIDE))
    x, threads = torch.from_numpy(x.astype(np.float32)), arguments.threads
    print(f"# PyTorch {torch.__version__}, MKL {torch.backends.mkl.is_available()}, "
          f"oneDNN {torch.backends.mkldnn.is_available()}")
    ways = tuning.arrangements(written(100), threads)
    common.measure({
        "energy_gradient": lambda way, s: tuning.time_energy_gradient(way, theta, x, threads, s),
        "iteration": lambda way, s: tuning.time_iteration(tuning.Tuning.iterate, TASK, way, theta, x, threads, s),
        "impdiff": lambda way, s: tuning.time_iteration(tuning.Tuning.impdiff, TASK, way, theta, x, threads, s)}, ways,
        arguments.seconds)


def check(path):
    """Energy and gradients of every arrangement, then three iterations of each method to look at."""
    theta, wrong, names = load(path), 0, [f"{name}_{part}" for name in SHAPES for part in ("weight", "bias")]
    with np.load(path.replace("_checkpoint", "_reference")) as file:
        reference = {name: file[name] for name in file}
    x = torch.from_numpy(reference["x"]).view(-1, SIDE * SIDE)
    torch.manual_seed(0)
    with torch.no_grad():
        for way in tuning.arrangements(written(4), 1):
            e, g = way.each(way.energy_gradient, theta, x)
            wrong += common.differs(f"energy ({way.name})", e, reference["energy"], 1e-5)
            wrong += common.differs(f"grad_x ({way.name})", g, reference["grad_x"].reshape(len(x), -1), 1e-5)
            for name, slope in zip(names, way.total(way.theta_gradient, theta, x, torch.full((len(x),), 1 / len(x)))):
                wrong += common.differs(f"{name} ({way.name})", slope, reference[f"dmeanE_d_{name}"], 1e-5)
    way = tuning.Arrangement(tuning.autograd(energy), "autograd", 0, 1)
    for method in (tuning.Tuning.iterate, tuning.Tuning.impdiff):
        run = tuning.Tuning(TASK, way, theta, x[:4].repeat(250, 1))
        for k in range(3):
            ess, size = method(run)
            print(f"{method.__name__} {k}: ESS {ess:.1f}, gradient norm {size:.4f}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(check(OPTIONS.check) if OPTIONS.check else measure(OPTIONS))
