"""Marginal likelihoods of NumPyro programs against closed forms, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import sosmc
from frameworks import SIGMA, Y, expect_eight_schools, expect_gradients, expect_missing, log_half_cauchy, log_normal, need, potential

jax, numpyro = need("jax"), need("numpyro")
dist = numpyro.distributions
jnp = jax.numpy


def set_precision(wide):
    """JAX's caches hold functions that were compiled for the other precision."""
    numpyro.enable_x64(wide)
    jax.clear_caches()


@pytest.fixture(scope="module", autouse=True)
def double():
    set_precision(True)
    yield
    set_precision(False)


@pytest.fixture
def single():
    set_precision(False)
    yield
    set_precision(True)


def schools(y, sigma, centred=False):
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    with numpyro.plate("schools", 8):
        if centred:
            effect = numpyro.sample("effect", dist.Normal(mu, tau))
        else:
            effect = numpyro.deterministic("effect", mu + tau * numpyro.sample("z", dist.Normal(0, 1)))
        numpyro.sample("y", dist.Normal(effect, sigma), obs=y)


def with_params(y, sigma):
    mu = numpyro.param("mu", 1.0)
    tau = numpyro.param("tau", 2.0, constraint=dist.constraints.positive)
    with numpyro.plate("schools", 8):
        numpyro.sample("y", dist.Normal(mu + tau * numpyro.sample("z", dist.Normal(0, 1)), sigma), obs=y)


Z = np.random.default_rng(0).normal(size=(3, 8))
AT = np.array([3.0, np.log(2.0)])
EXACT_U = np.array([potential(3.0, 2.0, z) for z in Z])


def make(program=schools, args=(Y, SIGMA), **keywords):
    return sosmc.from_numpyro(program, args, **{"optimise": ["mu", "tau"], **keywords})


def test_the_potential_is_the_closed_form():
    assert np.allclose(make().value(AT, Z), EXACT_U, rtol=1e-13)
    prior = log_normal(3, 0, 5) + log_half_cauchy(2, 5)
    assert np.allclose(make(prior="keep").value(AT, Z), EXACT_U - prior, rtol=1e-13)
    # tau latent: its prior and the Jacobian of tau = exp(s) count
    x = np.column_stack([np.full(3, np.log(2.0)), Z])
    assert np.allclose(make(optimise="mu").value(AT[:1], x), EXACT_U - log_half_cauchy(2, 5) - np.log(2), rtol=1e-13)
    # centred: effect = mu + tau z has the density of z over tau^8
    assert np.allclose(make(args=(Y, SIGMA, True)).value(AT, 3 + 2 * Z), EXACT_U + 8 * np.log(2), rtol=1e-13)
    assert np.allclose(make(with_params).value(AT, Z), EXACT_U, rtol=1e-13)


def test_gradients():
    expect_gradients(make(), n=4)


def test_theta_by_name():
    model = make(with_params)
    assert model.theta0 == pytest.approx([1, np.log(2)])
    assert make(theta0={"tau": 7.0}).theta0[1] == pytest.approx(np.log(7))
    assert np.allclose(model.pack({"mu": 3.0, "tau": 2.0}), AT)
    assert {k: float(v) for k, v in model.unpack(AT).items()} == pytest.approx({"mu": 3, "tau": 2})
    assert model.names == ["mu", "tau (unconstrained)"]
    assert list(make(optimise=["tau", "mu"]).unpack(AT)) == make(optimise=["tau", "mu"]).scale.names == ["tau", "mu"]
    with pytest.raises(ValueError, match="expected 'mu', 'tau'"):
        model.pack({"mu": 1.0})


def test_errors_by_the_delta_method():
    covariance = np.array([[0.04, 0.003], [0.003, 0.01]])
    errors = make().scale.errors(AT, np.sqrt(np.diag(covariance)), covariance)
    assert errors["mu"] == pytest.approx(0.2) and errors["tau"] == pytest.approx(2 * 0.1)  # d exp(s)/ds = tau

    def shares(y):
        p = numpyro.sample("p", dist.Dirichlet(jnp.ones(3)))
        b = numpyro.sample("b", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(p @ jnp.arange(3.0) + b, 1), obs=y)

    model = sosmc.from_numpyro(shares, (1.0,), optimise="p")
    assert model.dim_theta == 2 and model.scale.names == ["p[0]", "p[1]", "p[2]"]
    flat, covariance = np.array([0.3, -0.2]), np.array([[0.02, 0.01], [0.01, 0.03]])
    draws = np.random.default_rng(0).multivariate_normal(flat, covariance / 100, size=4000)
    spread = np.std([model.unpack(at)["p"] for at in draws], axis=0) * 10
    assert np.allclose(model.scale.errors(flat, np.sqrt(np.diag(covariance)), covariance)["p"], spread, rtol=0.1)


def test_particles_by_name():
    found = make().scale.particles(AT, Z)
    assert np.allclose(found["z"], Z) and np.allclose(found["effect"], 3 + 2 * Z)
    latent = make(optimise="mu").scale.particles(AT[:1], np.column_stack([np.full(3, np.log(2.0)), Z]))
    assert np.allclose(latent["tau"], 2) and "mu" not in latent


@pytest.mark.parametrize("centred", [False, True])
def test_eight_schools(centred):
    expect_eight_schools(make(args=(Y, SIGMA, centred)))


def test_eight_schools_in_single_precision(single):
    model = make()
    assert model.rounding == 1e-7
    expect_eight_schools(model)


def test_a_folder_has_the_numbers_that_the_engine_moves(tmp_path):
    result = sosmc.minimize(make(), kernel="mala", iterations=20, particles=64)
    result.save(tmp_path / "run")
    again = sosmc.load_run(tmp_path / "run")
    assert np.array_equal(again.theta_flat, result.theta_flat) and "tau (unconstrained)" in again.summary()
    assert result.plot().shape == (2, 2)


def test_a_support_that_depends_on_theta():
    def program(y):
        top = numpyro.sample("top", dist.LogNormal(0, 1))
        x = numpyro.sample("x", dist.Uniform(0, top))
        numpyro.sample("y", dist.Normal(x, 1), obs=y)

    model = sosmc.from_numpyro(program, (0.4,), optimise="top")
    # x = top s, s = 1 / (1 + exp(-u)): U = -log N(y; x, 1) - log(1/top) - log(top s (1 - s))
    u, top = 0.3, 2.5
    s = 1 / (1 + np.exp(-u))
    assert model.value(np.log([top]), np.array([[u]]))[0] == pytest.approx(-log_normal(0.4, top * s, 1) - np.log(s * (1 - s)))


def refused(match, program, args=(Y, SIGMA), error=ValueError, **keywords):
    with pytest.raises(error, match=match):
        sosmc.from_numpyro(program, args, **keywords)


def test_refusals():
    refused("no latent site of the model; did you mean 'tau'", schools, optimise=["mu", "taus"])
    refused("no latent site of the model; there are 'mu', 'tau', 'z'", schools, optimise=["something"])
    refused("optimise is empty", schools, optimise=[])
    refused("twice", schools, optimise=["mu", "mu"])
    refused("no latent variable is left", schools, optimise=["mu", "tau", "z"])
    refused("prior is 'none'; it must be", schools, optimise="mu", prior="none")
    refused(r"theta0\['mu'\] has shape \(2,\); the site has \(\)", schools, optimise="mu", theta0={"mu": [1.0, 2.0]})
    refused("outside the support", schools, optimise=["mu", "tau"], theta0={"tau": -1.0})
    refused("theta0 names 'tau', which is not in optimise", schools, optimise="mu", theta0={"tau": 1.0})
    refused("numpyro.param and is not optimised", with_params, optimise="mu")
    refused("model is int; it must be a NumPyro program", 3, error=TypeError, optimise="mu")


def test_discrete_sites_and_subsampled_plates_are_refused():
    def discrete(y):
        a = numpyro.sample("a", dist.Normal(0, 1))
        b = numpyro.sample("b", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(a + b * numpyro.sample("k", dist.Bernoulli(0.5)), 1), obs=y)

    def subsampled(y):
        a, b = numpyro.sample("a", dist.Normal(0, 1)), numpyro.sample("b", dist.Normal(0, 1))
        with numpyro.plate("rows", 8, subsample_size=3) as at:
            numpyro.sample("y", dist.Normal(a + b, 1), obs=y[at])

    refused("site 'k' is discrete", discrete, (1.0,), optimise="a")
    refused(r"plate 'rows' is subsampled \(3 of 8 rows\)", subsampled, (Y,), optimise="a")


def test_a_model_without_a_mode_is_refused():
    refused("has no mode.*'tau' went to", schools, (Y, SIGMA, True), optimise="mu")


def test_a_model_without_a_mode_is_refused_in_single_precision(single):
    refused("has no mode.*'tau' went to", schools, (Y, SIGMA, True), optimise="mu")


def test_a_density_that_is_not_finite_is_refused():
    def broken(y):
        a, b = numpyro.sample("a", dist.Normal(0, 1)), numpyro.sample("b", dist.Normal(0, 1))
        numpyro.factor("nothing", jnp.log(-1.0 - (a + b) ** 2))

    refused("finite|valid", broken, (1.0,), error=(ValueError, RuntimeError), optimise="a")


def test_without_numpyro(monkeypatch):
    expect_missing(monkeypatch, "numpyro", "numpyro", lambda: make())


def test_right_gradients_of_a_gaussian_process_with_jitter():
    """The Cholesky factor rounds U to nine digits, and nothing says so; whatever the first particles are, the gradients are right."""
    t = np.linspace(0, 1, 12)

    def process():
        scale = numpyro.sample("scale", dist.LogNormal(0, 1))
        length = numpyro.sample("length", dist.LogNormal(-1, 1))
        z = numpyro.sample("z", dist.Normal(0, 1).expand([12]).to_event(1))
        K = scale**2 * jnp.exp(-0.5 * ((t[:, None] - t) / length) ** 2) + 1e-6 * jnp.eye(12)
        numpyro.sample("y", dist.Normal(jnp.linalg.cholesky(K) @ z, 0.2), obs=np.sin(6 * t))

    model = sosmc.from_numpyro(process, optimise=["scale", "length"])
    for sd in (0.3, 1, 3):
        report = sosmc.check(model, init={"type": "normal", "sd": sd}, limits={"evaluations": 2000})
        assert report["gradient in x"].verdict == report["gradient in theta"].verdict == "ok"
    assert sosmc.minimize(model).verdict == "converged"
