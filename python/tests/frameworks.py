"""What the tests of JAX, PyTorch, NumPyro and PyMC have in common."""

from __future__ import annotations

import importlib
import os
import sys

import numpy as np
import pytest

import sosmc

# Eight schools with effects spread by 2.5 around their mean, and the exact maximum of their marginal likelihood.
Y = np.array([56.875, 6.875, -20.625, 4.375, -15.625, -10.625, 31.875, 16.875])
SIGMA = np.array([15.0, 10, 16, 11, 9, 11, 10, 18])
EXACT = {"mu": 8.0224, "tau": 19.7639}
EXACT_LOG_P = -36.7505


def potential(mu: float, tau: float, z: np.ndarray) -> float:
    """-log p(y, z | mu, tau) of the eight schools with effects mu + tau z."""
    square = ((Y - mu - tau * z) / SIGMA) ** 2
    return float(0.5 * square.sum() + np.log(SIGMA).sum() + 0.5 * (z**2).sum() + 8 * np.log(2 * np.pi))


def log_normal(x: float, mean: float, sd: float) -> float:
    return float(-0.5 * ((x - mean) / sd) ** 2 - np.log(sd) - 0.5 * np.log(2 * np.pi))


def log_half_cauchy(x: float, scale: float) -> float:
    return float(np.log(2 / (np.pi * scale)) - np.log1p((x / scale) ** 2))


def expect_eight_schools(model) -> None:
    """The solver, without a setting, within three of its own Monte Carlo errors of the exact maximum."""
    assert model.rows == 8
    result = sosmc.minimize(model)
    assert result.verdict == "converged", result.message
    for name, exact in EXACT.items():
        assert abs(result.theta[name] - exact) < 3 * result.mc_error[name]
        assert result.mc_error[name] < 0.05 * result.stderr[name]  # the precision that the solver promises
    assert abs(result.logz.value - EXACT_LOG_P) < 3 * result.logz.error < 0.1
    low, high = result.conf_int
    assert low["tau"] < EXACT["tau"] < high["tau"] and low["tau"] > 0
    assert "tau" in result.summary() and "19." in result.summary()


def need(package: str):
    """The package. Without it the tests that need it are skipped, or fail where SOSMC_TEST_FRAMEWORKS names it."""
    if package in os.environ.get("SOSMC_TEST_FRAMEWORKS", "").split():
        return importlib.import_module(package)
    return pytest.importorskip(package, reason=f"{package} is not installed")


RUNS = {"kernel": "ula", "iterations": 12, "particles": 96}
DATA = np.random.default_rng(0).normal(size=(40, 2))
OBJECTIVES = {
    "mmle": lambda: sosmc.mmle(),
    "likelihood": lambda: sosmc.likelihood(DATA),
    "batch": lambda: sosmc.likelihood(DATA, batch=10),
    "reverse": lambda: sosmc.reward(lambda x: np.tanh(x[:, 0]), beta=0.5),
}


def hash_of(model, objective=None, **keywords):
    sampler = sosmc.Sampler(model, objective, **{**RUNS, **keywords})
    sampler.run(12)
    return sampler.hash()


def expect_gradients(model, seed: int = 0, n: int = 7) -> None:
    """All functions of a model in double precision agree with differences of its values and with each other."""
    rng = np.random.default_rng(seed)
    theta, x, c = model.theta0 + 0.1 * rng.normal(size=model.dim_theta), rng.normal(size=(n, model.dim_x)), rng.normal(size=n)
    U, gx = model.energy(theta, x)[:2]
    assert np.allclose(U, model.value(theta, x), rtol=1e-12)
    step = 1e-5
    for j in range(model.dim_x):
        ahead, behind = x.copy(), x.copy()
        ahead[:, j] += step
        behind[:, j] -= step
        assert np.allclose((model.value(theta, ahead) - model.value(theta, behind)) / (2 * step), gx[:, j], atol=1e-6)
    scores = model.scores(theta, x)
    assert scores.shape == (n, model.dim_theta)
    for j in range(model.dim_theta):
        move = step * np.eye(model.dim_theta)[j]
        assert np.allclose((model.value(theta + move, x) - model.value(theta - move, x)) / (2 * step), scores[:, j], atol=1e-6)
    assert np.allclose(model.grad_theta(theta, x, c, None), c @ scores, rtol=1e-10, atol=1e-12)


def expect_missing(monkeypatch, package: str, extra: str, call) -> None:
    """Without the package the call says, in one sentence, how to get it."""
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ModuleNotFoundError, match=rf"pip install 'sosmc\[{extra}\]'"):
        call()
