"""Random numbers and scores of the independent re-run of the digits sweeps, for tools/mnist-rerun.sh.

    python mnist_rerun.py CHECKPOINT.npz --draw DIR     DIR/start.npz and DIR/noise.f32: what its seeds give
    python mnist_rerun.py CHECKPOINT.npz --score MODEL.npz --reward R --beta B     the paired gain beside its own

Its order of draws: a network as it is before the checkpoint is read and 128 pictures of a buffer, then the particles and
1,000 steps of the pre-training sampler; with a seed of its own the noise of 1,000 iterations; three more seeds for 64
chains of 512 steps each."""
import argparse
import os

import common

START_SEED, NOISE_SEED, SCORE_SEEDS = 42, 2026072701, (2026072711, 2026072712, 2026072713)
PARTICLES, ITERATIONS, WARM, CHAINS, STEPS = 1000, 1000, 1000, 64, 512
# gain and standard error, by beta
RERUN = {"bright": {5: (0.0777, 0.0025), 2: (0.1592, 0.0036), 1: (0.2295, 0.0039), 0.5: (0.2953, 0.0042)},
         "dark": {5: (0.0328, 0.0009), 2: (0.0762, 0.0015), 1: (0.1197, 0.0019), 0.5: (0.1333, 0.0023)},
         "half": {5: (0.1074, 0.0040), 2: (0.1593, 0.0084), 1: (0.1930, 0.0134), 0.5: (0.2098, 0.0140)}}


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", metavar="CHECKPOINT.npz")
    task = parser.add_mutually_exclusive_group(required=True)
    task.add_argument("--draw", metavar="DIR")
    task.add_argument("--score", metavar="MODEL.npz")
    parser.add_argument("--reward", choices=RERUN, default="bright")
    parser.add_argument("--beta", type=float, choices=RERUN["bright"], default=1)
    return parser.parse_args()


if __name__ == "__main__":
    OPTIONS = options()
    common.settle_torch(1)

import conv_torch as conv
import mnist_study as study
import numpy as np
import torch
import tuning_torch as tuning

PASSES = tuning.autograd(conv.energy)


def sampled(theta, count, steps):
    """As the re-run draws: all noise into one tensor, which is filled once before the first step."""
    x = torch.rand(count, conv.SIDE * conv.SIDE) * 2 - 1
    noise = torch.randn_like(x)
    for _ in range(steps):
        x = study.sampler_step(PASSES, theta, x, noise.normal_(0, 0.005))
    return x


def draw(theta, folder):
    torch.manual_seed(START_SEED)
    for outer, inner, *window in conv.SHAPES.values():
        torch.nn.Conv2d(inner, outer, window) if window else torch.nn.Linear(inner, outer)
    for _ in range(128):
        torch.rand(conv.SIDE * conv.SIDE)
    start = sampled(theta, PARTICLES, WARM).numpy().astype(np.float64)
    np.savez(os.path.join(folder, "start.npz"), x=start, logw=np.zeros(PARTICLES))
    torch.manual_seed(NOISE_SEED)
    with open(os.path.join(folder, "noise.f32"), "wb") as file:
        for _ in range(ITERATIONS):
            file.write(torch.randn(PARTICLES, conv.SIDE * conv.SIDE).numpy().tobytes())


def rewards(theta, reward):
    pictures = []
    for seed in SCORE_SEEDS:
        torch.manual_seed(seed)
        pictures.append(sampled(theta, CHAINS, STEPS))
    return study.REWARDS[reward](torch.cat(pictures))


def stored(path):
    """What sosmc writes."""
    with np.load(path) as file:
        return [torch.from_numpy(file[f"layer{k}_{part}"].astype(np.float32)) for k in range(1, len(conv.SHAPES) + 1)
                for part in ("weight", "bias")]


def score(o, theta):
    before, after = rewards(theta, o.reward), rewards(stored(o.score), o.reward)
    gain, error = (after - before).mean().item(), ((after - before).std() / len(after) ** 0.5).item()
    known, known_error = RERUN[o.reward][o.beta]
    print(f"{o.reward}, beta {o.beta:g}: {before.mean():.4f} to {after.mean():.4f} (sd {after.std():.3f}), gain {gain:.4f} +- "
          f"{error:.4f}; re-run {known:.4f} +- {known_error:.4f}, {abs(gain - known) / np.hypot(error, known_error):.1f} apart")


if __name__ == "__main__":
    network = conv.load(OPTIONS.checkpoint)
    draw(network, OPTIONS.draw) if OPTIONS.draw else score(OPTIONS, network)
