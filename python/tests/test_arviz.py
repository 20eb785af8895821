"""Draws for ArviZ: particles under their names, on the scale of the program, and the trace."""

from __future__ import annotations

import warnings

import numpy as np

import sosmc
from frameworks import SIGMA, Y, need

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    arviz = need("arviz")


def test_a_plain_model(pair):
    result = sosmc.minimize(pair, kernel="mala", iterations=20, particles=64)
    data = result.to_arviz(50)
    assert data["posterior"]["x"].shape == (1, 50, 2)
    assert len(data["optimisation"]["ess"]) == 20


def test_a_program():
    numpyro = need("numpyro")
    dist = numpyro.distributions

    def schools():
        mu, tau = numpyro.sample("mu", dist.Normal(0, 5)), numpyro.sample("tau", dist.HalfCauchy(5))
        with numpyro.plate("schools", 8):
            effect = numpyro.deterministic("effect", mu + tau * numpyro.sample("z", dist.Normal(0, 1)))
            numpyro.sample("y", dist.Normal(effect, SIGMA), obs=Y)

    result = sosmc.minimize(sosmc.from_numpyro(schools, optimise=["mu", "tau"]))
    posterior = result.to_arviz(1000)["posterior"]
    assert set(posterior.data_vars) == {"z", "effect"}
    mu, tau = result.theta["mu"], result.theta["tau"]
    precision = 1 / tau**2 + 1 / SIGMA**2
    exact, sd = (mu / tau**2 + Y / SIGMA**2) / precision, 1 / np.sqrt(precision)
    found = posterior["effect"].values[0]
    assert np.all(np.abs(found.mean(0) - exact) < 5 * sd / np.sqrt(500))
    assert np.all(np.abs(found.std(0) / sd - 1) < 0.2)
