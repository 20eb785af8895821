"""The sweep setting of the digits experiment tuned by PyTorch instead of sosmc: N particles of the pre-training sampler,
K updates by SOSMC-ULA, and the paired gain of fresh samples (docs/mnist.md).

    python mnist_study.py FILE.npz --reward bright|dark|half [--beta B] [--start-seed S] [--noise-seed S]
                          [--particles N] [--iterations K] [--every K]

A seed of its own for the noise of tuning tells what the noise decides and what the start. Rewards are those of the
published program: dark is minus half the mean, half has no factor 1/2. On one core a run of the default size takes some six
minutes."""
import argparse

import common

CHAINS, STEPS, CHAINS_SEED = 192, 512, 777


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="FILE.npz")
    parser.add_argument("--reward", choices=("bright", "dark", "half"), required=True)
    parser.add_argument("--beta", type=float, default=1)
    parser.add_argument("--start-seed", type=int, default=1)
    parser.add_argument("--noise-seed", type=int, help="go on with the start's unless told")
    parser.add_argument("--particles", type=int, default=1000)
    parser.add_argument("--iterations", type=int, default=1000)
    parser.add_argument("--every", type=int, default=250, help="updates between two looks")
    return parser.parse_args()


if __name__ == "__main__":
    OPTIONS = options()
    common.settle_torch(1)

import conv_torch as conv
import torch
import tuning_torch as tuning

LOWER = slice(conv.SIDE * conv.SIDE // 2, None)  # rows of a picture stand one behind the other
REWARDS = {"bright": lambda c: c.mean(1), "dark": lambda c: -c.mean(1) / 2,
           "half": lambda c: 2 * (c[:, LOWER].mean(1) - c.mean(1))}


@torch.no_grad()
def sampler_step(passes, theta, x, noise):
    """One step of the pre-training sampler."""
    x = (x + noise).clamp_(-1, 1)
    return (x - 10 * passes.energy_gradient(theta, x)[1].clamp_(-0.03, 0.03)).clamp_(-1, 1)


def sampled(passes, theta, count, steps):
    """Its pictures, from uniform noise."""
    x = torch.rand(count, conv.SIDE * conv.SIDE) * 2 - 1
    for _ in range(steps):
        x = sampler_step(passes, theta, x, 0.005 * torch.randn_like(x))
    return x


def fresh(passes, theta, reward):
    """Rewards of chains that have the same starts and noise for all networks; leaves the generator as it was."""
    state = torch.get_rng_state()
    torch.manual_seed(CHAINS_SEED)
    rewards = reward(sampled(passes, theta, CHAINS, STEPS))
    torch.set_rng_state(state)
    return rewards


def study(o):
    def reward(x):
        return REWARDS[o.reward](x.clamp(-1, 1))

    theta, passes = conv.load(o.model), tuning.autograd(conv.energy)
    way = tuning.Arrangement(passes, "autograd", 100, 1)
    torch.manual_seed(o.start_seed)
    start = sampled(passes, theta, o.particles, 1000)
    if o.noise_seed is not None:
        torch.manual_seed(o.noise_seed)
    run = tuning.Tuning(conv.TASK._replace(reward=reward, beta=o.beta), way, theta, start)
    before, least = fresh(passes, theta, reward), float(o.particles)
    print(f"before: {before.mean():.4f}, sd {before.std():.4f}", flush=True)
    for k in range(1, o.iterations + 1):
        least = min(least, run.iterate()[0])
        if k % o.every == 0 or k == o.iterations:
            now = fresh(passes, run.view, reward)
            gain = now - before
            print(f"{k}: {now.mean():.4f}, sd {now.std():.4f}, gain {gain.mean():.4f} +- {gain.std() / CHAINS ** 0.5:.4f}, "
                  f"particles' reward {reward(run.x).mean():.4f}, least ESS {least:.1f}", flush=True)


if __name__ == "__main__":
    study(OPTIONS)
