"""Models from JAX: gradients, shapes of theta, precision, the shared forward pass and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import sosmc
from frameworks import OBJECTIVES, expect_gradients, expect_missing, hash_of, need

jax = need("jax")
jnp = jax.numpy


@pytest.fixture(autouse=True)
def double():
    """Double precision for every test that does not say otherwise."""
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", False)


def network(theta, x):
    """A small network over a Gaussian, for one particle."""
    hidden = jnp.tanh(theta["W"] @ x + theta["b"])
    return jnp.sum(theta["v"] * hidden) + 0.5 * jnp.sum(x**2)


def start(dtype=np.float64):
    rng = np.random.default_rng(1)
    return {"W": jnp.array(rng.normal(size=(5, 2)), dtype), "b": jnp.zeros(5, dtype), "v": jnp.array(rng.normal(size=5), dtype)}


def test_gradients_follow_from_the_energy():
    expect_gradients(sosmc.from_jax(network, start(), 2))


def test_results_have_the_structure_of_theta():
    model = sosmc.from_jax(network, start(), 2)
    result = sosmc.minimize(model, sosmc.likelihood(np.random.default_rng(0).normal(size=(30, 2))), kernel="mala", iterations=5,
                            particles=64)
    assert {name: value.shape for name, value in result.theta.items()} == {"W": (5, 2), "b": (5,), "v": (5,)}
    assert set(result.mc_error) == {"W", "b", "v"} if result.mc_error is not None else result.why_no_mc_error
    assert model.names[:2] == ["W[0,0]", "W[0,1]"] and np.array_equal(model.pack(result.theta), result.theta_flat)
    nested = sosmc.from_jax(lambda t, x: jnp.sum((x - t[0]["m"]) ** 2) * t[1][0], ({"m": jnp.zeros(2)}, [jnp.ones(())]), 2)
    assert nested.unpack(np.array([1.0, 2, 3]))[0]["m"].tolist() == [1, 2] and nested.dim_theta == 3


def test_a_batch_and_single_particles_are_the_same_model():
    def batch(theta, x):
        return jnp.tanh(x @ theta["W"].T + theta["b"]) @ theta["v"] + 0.5 * jnp.sum(x**2, 1)

    one, many = sosmc.from_jax(network, start(), 2), sosmc.from_jax(batch, start(), 2)
    x = np.random.default_rng(0).normal(size=(9, 2))
    for a, b in zip(one.energy(one.theta0, x)[:2], many.energy(many.theta0, x)[:2]):
        assert np.allclose(a, b, rtol=1e-12)
    column = sosmc.from_jax(lambda theta, x: batch(theta, x)[:, None], start(), 2)
    assert np.array_equal(column.value(column.theta0, x), many.value(many.theta0, x))
    # Written so that both would do: particles are then seen one by one, and cannot mix.
    mixing = sosmc.from_jax(lambda theta, x: jnp.sum((x - x.mean()) ** 2, -1) + 0 * theta[0], jnp.zeros(1), 2)
    assert np.allclose(mixing.value(mixing.theta0, x), ((x - x.mean(1, keepdims=True)) ** 2).sum(1))


@pytest.mark.parametrize("kernel, objective, particles, dtype", [
    ("ula", "mmle", 96, np.float64), ("ula", "mmle", 93, np.float32), ("mala", "likelihood", 96, np.float32),
    ("hmc", "batch", 93, np.float64), ("rwm", "reverse", 96, np.float32), ("ula", "reverse", 93, np.float32),
    ("ula", "batch", 96, np.float32), ("mala", "reverse", 93, np.float64)])
def test_sharing_the_forward_pass_changes_no_bit(kernel, objective, particles, dtype):
    shared, alone = (sosmc.from_jax(network, start(dtype), 2, share=share) for share in (True, False))
    assert shared.shares_forward and not alone.shares_forward
    keywords = {"kernel": kernel, "particles": particles}
    assert hash_of(shared, OBJECTIVES[objective](), **keywords) == hash_of(alone, OBJECTIVES[objective](), **keywords)


def test_the_forward_pass_is_shared():
    model = sosmc.from_jax(network, start(), 2)
    passes, kept = model.grad_theta.__self__, []
    inner = passes.grad_theta
    model.grad_theta = lambda theta, x, c, k: (kept.append(k is not None), inner(theta, x, c, k))[1]
    hash_of(model)
    assert sum(kept) >= 11


def test_single_precision():
    model = sosmc.from_jax(network, start(np.float32), 2)
    wide = sosmc.from_jax(network, start(), 2)
    x = np.random.default_rng(0).normal(size=(9, 2))
    assert model.rounding == 1e-7 and wide.rounding == 0
    assert model.energy(model.theta0, x)[0].dtype == np.float32
    assert np.allclose(model.value(model.theta0, x), wide.value(model.theta0, x), rtol=1e-5)


def test_one_compilation_for_every_shape():
    traced = []

    def counted(theta, x):
        traced.append(x.shape)
        return network(theta, x)

    model = sosmc.from_jax(counted, start(), 2)
    before = len(traced)
    hash_of(model)
    after = len(traced)
    assert 0 < after - before <= 8
    assert hash_of(model, seed=5) and len(traced) == after


def test_a_run_goes_on_from_a_checkpoint_with_the_same_bits(tmp_path):
    model = sosmc.from_jax(network, start(np.float32), 2)
    whole, first, second = (sosmc.Sampler(model, kernel="ula", particles=93) for _ in range(3))
    whole.run(12)
    first.run(5)
    first.save(tmp_path / "state")
    second.load(tmp_path / "state")
    second.run(7)
    assert second.hash() == whole.hash()


def test_the_solver():
    y = jnp.array([1.0, -2.0])
    model = sosmc.from_jax(lambda t, x: 0.5 * jnp.sum((x - t) ** 2 + (x - y) ** 2), jnp.zeros(2), 2)
    result = sosmc.minimize(model)
    assert result.success and np.all(np.abs(result.theta - y) < 3 * result.mc_error)
    assert abs(result.logz.value - np.log(np.pi)) < 3 * result.logz.error


def test_check_finds_a_wrong_gradient():
    good = sosmc.from_jax(network, start(), 2)
    assert sosmc.check(good).ok

    @jax.custom_vjp
    def wrong(x):
        return x**3

    wrong.defvjp(lambda x: (x**3, x), lambda x, g: (2 * g * x,))
    bad = sosmc.from_jax(lambda t, x: 0.5 * jnp.sum(x**2) + wrong(t[1]) * x[0] + t[0] * x[1], jnp.ones(2), 2)
    assert not sosmc.check(bad).ok


def refused(error, match, *args, **keywords):
    with pytest.raises(error, match=match):
        sosmc.from_jax(*args, **keywords)


def test_refusals():
    refused(TypeError, "U is int; expected a function", 3, jnp.zeros(2), 2)
    refused(TypeError, "leaf of int64; every leaf must be float32 or float64", network, jnp.zeros(2, int), 2)
    refused(ValueError, "no leaves", network, {}, 2)
    refused(ValueError, r"returns shape \(2,\) for one particle of shape \(2,\) and shape \(5, 2\) for a batch", lambda t, x: x, jnp.zeros(2), 2)
    refused(ValueError, "U fails for one particle", lambda t, x: x @ jnp.zeros((7, 7)), jnp.zeros(2), 2)
    refused(ValueError, "not finite", lambda t, x: jnp.sum(x) * t, jnp.array(np.nan), 2)
    with pytest.raises(ValueError, match="theta has the structure"):
        sosmc.from_jax(network, start(), 2).pack({"W": 1.0})
    jax.config.update("jax_enable_x64", False)
    refused(TypeError, "jax_enable_x64", network, {"W": np.zeros((5, 2)), "b": np.zeros(5), "v": np.zeros(5)}, 2)


def test_an_energy_that_is_not_a_number_is_named():
    model = sosmc.from_jax(lambda t, x: jnp.sum(x**2) * jnp.where(x[0] > -9, jnp.nan, 1.0) + t, jnp.array(0.0), 2)
    with pytest.raises(sosmc.NumericError):
        hash_of(model)


def test_without_jax(monkeypatch):
    expect_missing(monkeypatch, "jax", "jax", lambda: sosmc.from_jax(network, np.zeros(2), 2))
