"""Energies with a wall or a jump, and energies that depend on the batch: right, or named by the verdict."""

from __future__ import annotations

import os

import numpy as np
import pytest

import sosmc

SEEDS = range(1, 21 if os.environ.get("SOSMC_TEST_TIER") == "nightly" else 3)


def smooth(theta, x):
    return (((x - theta) ** 2 + (x - 1) ** 2) / 2).sum(1)


def slopes(theta, x):
    return 2 * x - theta - 1


def model_of(added):
    """x_j ~ N(theta, 1), y_j ~ N(x_j, 1), j = 1, 2, y = (1, 1), and `added` on top of U."""
    return sosmc.Model(lambda theta, x: (smooth(theta, x) + added(theta, x), slopes(theta, x)), dim_x=2, theta0=0.0,
                       scores=lambda theta, x: (theta - x).sum(1, keepdims=True))


RIGHT = {
    "inf": (1.43376, lambda theta, x: np.where(x[:, 0] < 1, np.inf, 0)),
    "nan": (1.43376, lambda theta, x: np.where(x[:, 0] < 1, np.nan, 0)),
    "1e308": (1.43376, lambda theta, x: np.where(x[:, 0] < 1, 1e308, 0)),
    "step": (0.77448, lambda theta, x: np.where(x[:, 0] > 1.5, 3, 0)),
    "smooth": (1.0, lambda theta, x: 0 * x[:, 0]),
}
NAMED = {
    "minus": ("U is minus infinity near x_1 = 1", lambda theta, x: np.where(x[:, 0] < 1, -np.inf, 0)),
    "moves": ("the jump changes with theta", lambda theta, x: np.where(x[:, 0] > 1.5 + theta, 3, 0)),
    "index": ("depends on its place in the batch", lambda theta, x: 0.01 * (np.arange(len(x)) % 5)),
    "mean": ("depends on its place in the batch", lambda theta, x: 0.05 * x[:, 0].mean() * x[:, 0]),
}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", RIGHT)
def test_theta_is_right_beside_a_wall(kind, seed):
    exact, added = RIGHT[kind]
    r = sosmc.minimize(model_of(added), sosmc.mmle(), seed=seed)
    assert r.verdict == "converged", r.reasons
    assert abs(r.theta - exact) < 4.5 * r.mc_error + 1e-4


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", NAMED)
def test_what_the_solver_cannot_mend_is_named(kind, seed):
    words, added = NAMED[kind]
    r = sosmc.minimize(model_of(added), sosmc.mmle(), seed=seed)
    assert r.verdict != "converged" and any(words in reason for reason in r.reasons), r.reasons
