"""Parameters of which the particles say little or nothing, with exact answers: no latent variables, hardly any, a flat ridge."""

from __future__ import annotations

import os
from statistics import NormalDist

import numpy as np
import pytest

import sosmc

NIGHTLY = os.environ.get("SOSMC_TEST_TIER") == "nightly"
SEEDS = range(1, 21 if NIGHTLY else 3)


@pytest.mark.parametrize("p", [2, 200])
def test_parameters_without_latent_variables(p):
    def energy(theta, x):
        u = ((x - theta[0]) ** 2 + (x - 1) ** 2).sum(1) / 2 + ((theta[1:] - 5) ** 2).sum() / 2
        return u, 2 * x - theta[0] - 1

    def scores(theta, x):
        d = np.empty((len(x), p))
        d[:, 0] = theta[0] - x[:, 0]
        d[:, 1:] = theta[1:] - 5
        return d

    model = sosmc.Model(energy, theta0=np.zeros(p), dim_x=1, scores=scores)
    for seed in SEEDS if p == 2 or NIGHTLY else [1]:
        result = sosmc.minimize(model, sosmc.mmle(), seed=seed)
        assert result.verdict == "converged"
        assert np.allclose(result.theta, [1] + [5] * (p - 1), atol=1e-3)
        assert np.allclose(result.stderr, [2**0.5] + [1] * (p - 1), rtol=1e-3)


@pytest.mark.parametrize("b", [0.01, 0.001])
def test_scores_that_hardly_vary(b):
    def energy(theta, x):
        return (x**2).sum(1) / 2 + 10 * np.log(np.cosh(theta - 1)) + b * theta * x.sum(1), x + b * theta

    def scores(theta, x):
        return 10 * np.tanh(theta - 1) + b * x

    model = sosmc.Model(energy, theta0=0.0, dim_x=1, scores=scores)
    for seed in SEEDS:
        result = sosmc.minimize(model, sosmc.mmle(), seed=seed)
        assert result.verdict == "converged"
        assert abs(result.theta - (1 + b * b / 10)) < 1e-6
        assert result.stderr == pytest.approx((10 - b * b) ** -0.5, rel=1e-3)


def test_a_flat_ridge_is_measured_or_named():
    y = np.array([1 + 2 * NormalDist().inv_cdf((j + 0.5) / 20) for j in range(20)])

    def energy(theta, x):
        inner, outer = np.exp(-2 * theta[1]), np.exp(-2 * theta[2])
        a, c = x - theta[0], x - y
        u = (a * a * inner + c * c * outer).sum(1) / 2 + 20 * (theta[1] + theta[2]) + (theta[2] + 1) ** 2 / 2
        return u, a * inner + c * outer

    def scores(theta, x):
        inner, outer = np.exp(-2 * theta[1]), np.exp(-2 * theta[2])
        a, c = x - theta[0], x - y
        return np.stack([-inner * a.sum(1), 20 - inner * (a * a).sum(1), 21 + theta[2] - outer * (c * c).sum(1)], 1)

    model = sosmc.Model(energy, theta0=np.zeros(3), dim_x=20, scores=scores)
    for seed in SEEDS if NIGHTLY else [1]:
        result = sosmc.minimize(model, sosmc.mmle(), seed=seed)
        off = np.abs(np.asarray(result.theta) - [1, 0.64308, -1])
        assert np.all(off < [0.01, 0.05, 0.3])
        if result.verdict == "converged":
            assert np.all(off <= 4 * np.asarray(result.mc_error) + 1e-3)
            assert np.allclose(result.stderr, [0.4333, 0.1682, 1], rtol=0.15)
        else:
            assert "theta_3" in " ".join(result.reasons)
