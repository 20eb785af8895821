"""The energy network 2-128-128-128-128-1 (SiLU, single precision) in PyTorch, as a peer for bench/mlp.

    python mlp_torch.py --threads 1|2 [--seconds S] [--model FILE.npz]   lines `name seconds`, the best of many calls
    python mlp_torch.py --check FILE.npz       energy and gradients against FILE_reference.npz; exit status 1 if they differ

`energy_gradient` is E and grad_x E of all particles, `iteration` one whole SOSMC-ULA tuning iteration in the order of the
published programs. Each is measured in several arrangements of the same arithmetic (autograd, backward passes written by
hand, the same compiled where torch.compile exists; all particles at once, tiles that stay in cache, tiles shared by two
workers) and the fastest counts; lines that begin with # say which.
"""
import sys

import common

OPTIONS = common.options(10000, "layerK_weight and layerK_bias")
common.settle_torch(OPTIONS.threads)

import numpy as np
import torch
import tuning_torch as tuning

SIZES = (2, 128, 128, 128, 128, 1)
TASK = tuning.Task(reward=lambda x: x[:, 1] < 0, beta=0.25, rate=2e-4, clip=1000.0, gamma=0.005, factor=1.01,
                   gamma_max=1e-2)
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


def energy(theta, x):
    for k in range(0, len(theta) - 2, 2):
        x = silu(torch.addmm(theta[k + 1], x, theta[k].t()))
    return torch.addmm(theta[-1], x, theta[-2].t()).squeeze(1)


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


HAND = tuning.Passes(energy, hand_energy_gradient, hand_theta_gradient)


def written(tiles):
    """Every way to write the passes, whether it is what a user would write, and tiles."""
    ways = {"autograd": (tuning.autograd(energy), True, tiles), "hand": (HAND, False, tiles)}
    made = tuning.compiled(lambda compile: tuning.Passes(*map(compile, HAND)), random_network(), torch.zeros(8, 2))
    if made:
        ways["compiled"] = (made, False, tiles)
    return ways


# ------------------------------------------------------------------------------------------------ measuring, checking


def measure(arguments):
    theta = load(arguments.model) if arguments.model else random_network()
    x = torch.from_numpy(np.random.default_rng(1).uniform(-6, 6, (arguments.particles, 2)).astype(np.float32))
    threads = arguments.threads
    print(f"# PyTorch {torch.__version__}, MKL {torch.backends.mkl.is_available()}")
    common.measure({
        "energy_gradient": lambda way, s: tuning.time_energy_gradient(way, theta, x, threads, s),
        "iteration": lambda way, s: tuning.time_iteration(tuning.Tuning.iterate, TASK, way, theta, x, threads, s)},
        tuning.arrangements(written((0, 500, 1000)), threads), arguments.seconds)


def check(path):
    """Energy and gradients of every arrangement, then three iterations from nearly settled particles to look at."""
    theta, wrong, names = load(path), 0, [f"layer{k}_{part}" for k in range(1, len(SIZES)) for part in ("weight", "bias")]
    with np.load(path.replace(".npz", "_reference.npz")) as file:
        reference = {name: file[name] for name in file}
    x, coef = torch.from_numpy(reference["x"]), torch.from_numpy(reference["coef"].astype(np.float32))
    torch.manual_seed(0)
    with torch.no_grad():
        for way in tuning.arrangements(written((0, 16)), 1):
            e, g = way.each(way.energy_gradient, theta, x)
            wrong += common.differs(f"energy ({way.name})", e, reference["energy"], 1e-5)
            wrong += common.differs(f"grad_x ({way.name})", g, reference["grad_x"], 1e-5)
            for name, slope in zip(names, way.total(way.theta_gradient, theta, x, coef)):
                wrong += common.differs(f"{name} ({way.name})", slope, reference[f"dcE_d_{name}"], 1e-5)
        way = tuning.Arrangement(HAND, "hand", 500, 1)
        x = torch.rand(10000, 2) * 12 - 6
        for _ in range(300):
            x += 0.1 * torch.randn_like(x) - 0.005 * way.each(way.energy_gradient, theta, x)[1]
    run = tuning.Tuning(TASK, way, theta, x)
    for k in range(3):
        ess, size = run.iterate()
        print(f"iteration {k}: ESS {ess:.0f}, gradient norm {size:.3f}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(check(OPTIONS.check) if OPTIONS.check else measure(OPTIONS))
