"""Marginal likelihoods of PyMC models against closed forms, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import sosmc
from frameworks import SIGMA, Y, expect_eight_schools, expect_gradients, expect_missing, log_half_cauchy, log_normal, need, potential

jax, pymc = need("jax"), need("pymc")

Z = np.random.default_rng(0).normal(size=(3, 8))
AT = np.array([3.0, np.log(2.0)])
EXACT_U = np.array([potential(3.0, 2.0, z) for z in Z])
CLOSE = 1e-7  # PyMC's own constants are rounded to single precision in places


def schools(centred=False, extra=None):
    with pymc.Model() as model:
        mu, tau = pymc.Normal("mu", 0, 5), pymc.HalfCauchy("tau", 5)
        if centred:
            effect = pymc.Normal("effect", mu, tau, shape=8)
        else:
            effect = pymc.Deterministic("effect", mu + tau * pymc.Normal("z", 0, 1, shape=8))
        pymc.Normal("y", effect, SIGMA, observed=Y)
        if extra is not None:
            pymc.Potential("extra", extra * mu**2)
    return model


def make(model=None, **keywords):
    return sosmc.from_pymc(model or schools(), **{"optimise": ["mu", "tau"], **keywords})


def test_the_potential_is_the_closed_form():
    model = make()
    assert np.allclose(model.value(AT, Z), EXACT_U, rtol=1e-12)
    expect_gradients(model, n=4)
    prior = log_normal(3, 0, 5) + log_half_cauchy(2, 5)
    assert np.allclose(make(prior="keep").value(AT, Z), EXACT_U - prior, atol=CLOSE)
    x = np.column_stack([np.full(3, np.log(2.0)), Z])
    assert np.allclose(make(optimise="mu").value(AT[:1], x), EXACT_U - log_half_cauchy(2, 5) - np.log(2), atol=CLOSE)
    assert np.allclose(make(schools(centred=True)).value(AT, 3 + 2 * Z), EXACT_U + 8 * np.log(2), rtol=1e-12)
    assert np.allclose(make(schools(extra=-0.5)).value(AT, Z), EXACT_U + 4.5, rtol=1e-12)


def test_names():
    model = make(theta0={"tau": 7.0})
    assert model.theta0 == pytest.approx([0, np.log(7)]) and model.names == ["mu", "tau (unconstrained)"]
    assert np.allclose(model.pack({"tau": 2.0, "mu": 3.0}), AT)
    assert {k: float(v) for k, v in model.unpack(AT).items()} == pytest.approx({"mu": 3, "tau": 2})
    assert model.scale.errors(AT, np.array([0.2, 0.1]), None)["tau"] == pytest.approx(0.2)
    found = model.scale.particles(AT, Z)
    assert set(found) == {"z", "effect"} and np.allclose(found["effect"], 3 + 2 * Z)


@pytest.mark.parametrize("centred", [False, True])
def test_eight_schools(centred):
    expect_eight_schools(make(schools(centred)))


def test_the_mode_of_the_marginal_posterior():
    """With prior="keep" and tau held by a tight prior the mode of mu is that of a Gaussian."""
    with pymc.Model() as model:
        mu = pymc.Normal("mu", 2, 3)
        pymc.Normal("y", mu + 10 * pymc.Normal("z", 0, 1, shape=8), SIGMA, observed=Y)
    weight = 1 / (100 + SIGMA**2)
    for prior, own in (("keep", 1 / 9), ("drop", 0.0)):
        result = sosmc.minimize(sosmc.from_pymc(model, optimise="mu", prior=prior))
        exact = (weight @ Y + 2 * own) / (weight.sum() + own)
        assert result.success and abs(result.theta["mu"] - exact) < 3 * result.mc_error["mu"]


def refused(match, model, error=ValueError, **keywords):
    with pytest.raises(error, match=match):
        sosmc.from_pymc(model, **keywords)


def test_refusals():
    model = schools()
    refused("no free variable of the model; did you mean 'tau'", model, optimise=["taus"])
    refused("no latent variable is left", model, optimise=["mu", "tau", "z"])
    refused(r"theta0\['mu'\] has shape \(2,\); the variable has \(\)", model, optimise="mu", theta0={"mu": [1.0, 2.0]})
    refused("outside the support", model, optimise=["mu", "tau"], theta0={"tau": -1.0})
    refused("theta0 names 'tau'", model, optimise="mu", theta0={"tau": 1.0})
    refused("model", 3, error=TypeError, optimise="mu")
    refused("has no mode.*'tau' went to", schools(centred=True), optimise="mu")
    with pymc.Model() as discrete:
        a, b = pymc.Normal("a"), pymc.Normal("b")
        pymc.Normal("y", a + b * pymc.Bernoulli("k", 0.5), observed=Y)
    refused("variable 'k' is discrete", discrete, optimise="a")
    with pymc.Model() as part:
        a, b = pymc.Normal("a"), pymc.Normal("b")
        pymc.Normal("y", a + b, observed=pymc.Minibatch(Y, batch_size=3), total_size=8)
    refused("variable 'y' is subsampled", part, optimise="a")


def test_without_pymc(monkeypatch):
    expect_missing(monkeypatch, "pymc", "pymc", lambda: sosmc.from_pymc(None, optimise="mu"))
