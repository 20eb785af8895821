"""An iteration of the deblurring experiment as it was published: NumPy for blur, total variation and noise, and proxTV's
anisotropic proximal map, one call per particle and 35 passes each. Prints `METHOD SECONDS` and
`METHOD_processor SECONDS` lines, the best of a few iterations; the picture is made up, the cost hardly depends on it."""
import time

import numpy as np
import prox_tv

ROWS, COLUMNS, PARTICLES, RADIUS = 292, 119, 20, 2
LAMBDA, SIGMA, THETA, PASSES = 0.4, 0.47, -3.5, 35


def window_sums(x, axis):
    """Sums over a window of 2 RADIUS + 1 that ends at the border."""
    n = x.shape[axis]
    sums = np.concatenate([np.zeros_like(np.take(x, [0], axis)), np.cumsum(x, axis=axis)], axis=axis)
    high = np.minimum(np.arange(n) + RADIUS + 1, n)
    low = np.maximum(np.arange(n) - RADIUS, 0)
    return np.take(sums, high, axis) - np.take(sums, low, axis)


COUNTS = window_sums(window_sums(np.ones((ROWS, COLUMNS, 1)), 0), 1)


def blur(x):
    return window_sums(window_sums(x, 0), 1) / COUNTS


def transposed(x):
    return window_sums(window_sums(x / COUNTS, 0), 1)


def total_variation(x):
    down, right = np.zeros_like(x), np.zeros_like(x)
    down[:-1] = x[1:] - x[:-1]
    right[:, :-1] = x[:, 1:] - x[:, :-1]
    return np.sqrt(down**2 + right**2).sum(axis=(0, 1))


def prox(x):
    weight = LAMBDA * np.exp(THETA)
    return np.stack([prox_tv.tv1_2d(np.ascontiguousarray(x[..., i]), weight, n_threads=1, max_iters=PASSES)
                     for i in range(x.shape[2])], axis=2)


def mean_map(x, y, step):
    gradient = transposed(blur(x) - y) / SIGMA**2
    return (1 - step / LAMBDA) * x - step * gradient + step / LAMBDA * prox(x)


def potential(x, y):
    return ((y - blur(x))**2).sum(axis=(0, 1)) / (2 * SIGMA**2) + np.exp(THETA) * total_variation(x)


def iterate(random, x, y, step, ratio):
    strength = np.exp(THETA) * total_variation(x).mean() / (ROWS * COLUMNS) - 1
    centre = mean_map(x, y, step)
    new = centre + np.sqrt(2 * step) * random.standard_normal(x.shape)
    if ratio:
        forward = ((new - centre)**2).sum(axis=(0, 1))
        backward = ((x - mean_map(new, y, step))**2).sum(axis=(0, 1))
        strength = strength + (potential(x, y) - potential(new, y) + (forward - backward) / (4 * step)).max()
    return new, strength


def main():
    random = np.random.default_rng(42)
    truth = 90 + 60 * (np.arange(ROWS)[:, None] // 37 % 2) + 40 * np.sin(0.3 * np.arange(COLUMNS))
    y = blur(truth[..., None]) + SIGMA * random.standard_normal((ROWS, COLUMNS, 1))
    for name, step, ratio in (("MYPGD", 0.01, False), ("SOSMC-MYULA", 0.396, False), ("SOSMC-MYULA-ratio", 0.396, True)):
        x = truth[..., None] + 8 * random.standard_normal((ROWS, COLUMNS, PARTICLES))
        wall, processor = np.inf, np.inf
        for _ in range(3):
            begin = time.perf_counter(), time.process_time()
            x, _ = iterate(random, x, y, step, ratio)
            wall = min(wall, time.perf_counter() - begin[0])
            processor = min(processor, time.process_time() - begin[1])
        print(name, wall)
        print(name + "_processor", processor)


if __name__ == "__main__":
    main()
