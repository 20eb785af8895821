"""More modes than the solver lists, and parameters that run away, by the user's names."""

from __future__ import annotations

import math
import os

import numpy as np
import pytest

import sosmc

SEEDS = range(20 if os.environ.get("SOSMC_TEST_TIER") == "nightly" else 1)
Y = np.linspace(-5, 6, 15)


def terms(theta, x):
    """-log of half N(x; -theta, 0.09) + half N(x; theta, 0.09), its slope in x and in theta."""
    above, below = (x - theta) / 0.09, (x + theta) / 0.09
    a, b = -0.045 * above**2, -0.045 * below**2
    share = 1 / (1 + np.exp(np.clip(b - a, -700, 700)))
    U = -np.logaddexp(a, b) + math.log(2) + 0.5 * math.log(2 * math.pi * 0.09)
    return U, share * above + (1 - share) * below, (1 - share) * below - share * above


def energy(theta, x):
    U, gx, _ = terms(theta, x)
    off = x - Y
    return (U + off**2 / 4.5 + 0.5 * math.log(2 * math.pi * 2.25)).sum(1), gx + off / 2.25


@pytest.mark.parametrize("seed", SEEDS)
def test_fifteen_latents_with_two_modes_each(seed):
    model = sosmc.Model(energy, dim_x=15, theta0=1.0, scores=lambda theta, x: terms(theta, x)[2].sum(1, keepdims=True))
    r = sosmc.minimize(model, sosmc.mmle(), seed=seed)
    assert r.verdict == "converged", r.reasons
    assert abs(abs(r.theta) - 2.91844) < 4.5 * r.mc_error
    assert abs(r.stderr / 0.4012 - 1) < 0.2
    assert abs(r.fun.value - 39.31683) < 5 * r.fun.error < 2.5


@pytest.mark.parametrize("whole", [True, False])
def test_a_missing_constant_is_named_by_the_users_name(whole):
    """x_j ~ N(mu, e^(2 log_tau)), y_j ~ N(x_j, 1); without n log tau log_tau runs away."""
    y = np.linspace(-3, 5, 20)

    def energy(theta, x):
        prior, apart, off = float(np.exp(min(-2 * theta["log_tau"], 700))), x - theta["mu"], x - y
        U = 0.5 * (prior * apart**2 + off**2).sum(1) + (20 * theta["log_tau"] if whole else 0)
        return U, prior * apart + off

    def scores(theta, x):
        prior, apart = float(np.exp(min(-2 * theta["log_tau"], 700))), x - theta["mu"]
        return np.column_stack([-prior * apart.sum(1), (20 if whole else 0) - prior * (apart**2).sum(1)])

    r = sosmc.minimize(sosmc.Model(energy, dim_x=20, theta0={"mu": 0.0, "log_tau": 0.0}, scores=scores), sosmc.mmle(), seed=0)
    ran = any(reason.startswith("log_tau ran to plus infinity (it went from 0 to") for reason in r.reasons)
    assert ran != whole and (r.verdict == "converged") == whole, r.reasons
    assert whole or (r.theta["log_tau"] > 5 and "normalising constant of the prior" in r.message)
