"""Models: shapes of theta, styles of callables, the shared forward pass, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import sosmc
from conftest import Y, energy, grad_theta

EXPLICIT = {"kernel": "ula", "iterations": 20, "particles": 100}


def hash_of(model, objective=None, **keywords):
    s = sosmc.Sampler(model, objective, **{**EXPLICIT, **keywords})
    s.run(20)
    return s.hash()


def test_styles_of_callables_give_the_same_bits(pair):
    def energy_into(theta, x, U, gx):
        u, g = energy(theta, x)
        U[:] = u
        if gx is not None:
            gx[:] = g

    def grad_theta_into(theta, x, c, g):
        g += grad_theta(theta, x, c)

    into = sosmc.Model(energy_into=energy_into, grad_theta_into=grad_theta_into, theta0=np.zeros(2), dim_x=2)
    apart = sosmc.Model(energy, grad_theta, theta0=np.zeros(2), dim_x=2, value=lambda t, x: energy(t, x)[0])
    assert hash_of(pair) == hash_of(into) == hash_of(apart)


@pytest.mark.parametrize("kernel", ["ula", "mala", "hmc", "rwm"])
@pytest.mark.parametrize("particles", [1000, 999])
@pytest.mark.parametrize("objective", ["mmle", "likelihood", "batch", "reverse"])
def test_the_shared_forward_pass_changes_no_bit(pair, kernel, particles, objective):
    given = []

    def forward(theta, x):
        return (*energy(theta, x), (np.array(theta), np.array(x)))

    def contract(theta, x, c, kept):
        given.append(kept is not None)
        if kept is not None:
            assert np.array_equal(kept[0], theta) and np.array_equal(kept[1], x)
            theta, x = kept
        return grad_theta(theta, x, c)

    shared = sosmc.Model(forward, contract, theta0=np.zeros(2), dim_x=2, shares_forward=True)
    data = np.random.default_rng(0).normal(size=(50, 2))
    made = {"mmle": sosmc.mmle(), "likelihood": sosmc.likelihood(data), "batch": sosmc.likelihood(data, batch=10),
            "reverse": sosmc.reward(lambda x: x[:, 0], beta=0.5)}[objective]
    keywords = {"kernel": kernel, "particles": particles}
    assert hash_of(shared, made, **keywords) == hash_of(pair, made, **keywords)
    if kernel == "ula":
        assert sum(given) > 10


def test_tiles_share_the_forward_pass_too(pair):
    seen = []

    def contract(theta, x, c, kept):
        seen.append(kept is not None and np.array_equal(kept, x))
        return grad_theta(theta, x, c)

    shared = sosmc.Model(lambda t, x: (*energy(t, x), np.array(x)), contract, theta0=np.zeros(2), dim_x=2, shares_forward=True, tile=16)
    hash_of(shared)
    assert np.mean(seen) > 0.9


def test_theta_in_the_users_own_shape():
    def U(theta, x):
        return 0.5 * ((x - theta["mean"]) ** 2).sum(1) * np.exp(-theta["log"]) + x.shape[1] / 2 * theta["log"]

    def g(theta, x, c):
        r = (x - theta["mean"]) * np.exp(-theta["log"])
        return {"mean": -c @ r, "log": c @ (1 - 0.5 * (r * (x - theta["mean"])).sum(1))}

    def both(theta, x):
        return U(theta, x), (x - theta["mean"]) * np.exp(-theta["log"])

    model = sosmc.Model(both, g, theta0={"mean": np.array([0.5, 0.0]), "log": 0.3}, dim_x=2)
    assert model.names == ["mean_1", "mean_2", "log"]
    assert sosmc.check(model).ok
    data = np.random.default_rng(1).normal([1.0, -1.0], 2.0, size=(400, 2))
    r = sosmc.minimize(model, sosmc.likelihood(data))
    assert set(r.theta) == {"mean", "log"} and r.theta["mean"].shape == (2,)
    assert np.allclose(r.theta["mean"], data.mean(0), atol=0.05)
    assert abs(r.theta["log"] - np.log(data.var(0).mean())) < 0.05
    assert set(r.mc_error) == {"mean", "log"}


def test_a_number_and_a_matrix_as_theta():
    number = sosmc.Model(lambda t, x: (0.5 * (x[:, 0] - t) ** 2, x - t), lambda t, x, c: c @ (t - x[:, 0]), theta0=0.5, dim_x=1)
    assert isinstance(sosmc.minimize(number, sosmc.sampling(), **EXPLICIT).theta, float)
    W = np.zeros((2, 2))
    matrix = sosmc.Model(lambda t, x: (0.5 * (x * x).sum(1) + x @ t.sum(1) * 0, x), lambda t, x, c: np.zeros((2, 2)), theta0=W, dim_x=2)
    assert sosmc.minimize(matrix, sosmc.mmle(), **EXPLICIT).theta.shape == (2, 2)


def test_scores_alone_are_enough():
    model = sosmc.Model(energy, theta0=np.zeros(2), dim_x=2, scores=lambda t, x: t - x)
    report = sosmc.check(model)
    assert report.ok and report["scores"].verdict == "ok"
    r = sosmc.minimize(model, sosmc.mmle())
    assert r.success and np.allclose(r.theta, Y, atol=0.01)


def test_single_precision_is_asked_for():
    def single(theta, x):
        u, g = energy(theta.astype(np.float32), x.astype(np.float32))
        return u.astype(np.float32), g.astype(np.float32)

    model = sosmc.Model(single, grad_theta, theta0=np.zeros(2), dim_x=2)
    with pytest.raises(TypeError, match="float32; expected float64, or Model.*rounding=1e-7"):
        hash_of(model)
    hash_of(sosmc.Model(single, grad_theta, theta0=np.zeros(2), dim_x=2, rounding=1e-7))


def refused(kind, words, **changes):
    arguments = {"energy": energy, "grad_theta": grad_theta, "theta0": np.zeros(2), "dim_x": 2, **changes}
    with pytest.raises(kind, match=words):
        hash_of(sosmc.Model(**arguments))


def test_bad_callables_are_refused_with_one_sentence():
    refused(ValueError, r"energy returned U of shape \(2, 100\); expected \(100,\)", energy=lambda t, x: (x.T, x))
    refused(ValueError, r"energy returned dU/dx of shape \(2, 100\); expected \(100, 2\)", energy=lambda t, x: (x[:, 0], x.T))
    refused(TypeError, "energy returned U alone, and dU/dx is needed", energy=lambda t, x: x[:, 0])
    refused(TypeError, "energy returned U of type complex128", energy=lambda t, x: (x[:, 0] + 0j, x))
    refused(ValueError, r"gradient of shape \(3,\); expected \(2,\)", grad_theta=lambda t, x, c: np.zeros(3))
    refused(TypeError, "needs theta0", theta0=None)
    refused(ValueError, "theta0 has values that are not finite", theta0=[np.nan, 0.0])
    refused(TypeError, "theta0 is of type", theta0=["a", "b"])
    refused(ValueError, "dim_x is 0", dim_x=0)
    refused(TypeError, "energy is int; expected a function", energy=3)
    refused(TypeError, "needs grad_theta", grad_theta=None)
    refused(ValueError, "names has 1 names; expected 2", names=["a"])
    refused(ValueError, "tile is 0", tile=0)


def test_values_that_are_not_finite(pair):
    def nan(theta, x):
        u, g = energy(theta, x)
        return np.full_like(u, np.nan), g

    with pytest.raises(sosmc.NumericError, match="U is nan"):
        hash_of(sosmc.Model(nan, grad_theta, theta0=np.zeros(2), dim_x=2))
    assert issubclass(sosmc.NumericError, ArithmeticError)


def test_keywords_that_do_not_exist(pair):
    for keyword, hint in [("kernell", "did you mean 'kernel'"), ("step", r"did you mean kernel=\{'step'"), ("iter", "did you mean 'iterations'"),
                          ("nothing_like_it", "unexpected keyword 'nothing_like_it'$")]:
        with pytest.raises(TypeError, match=hint):
            sosmc.minimize(pair, **{keyword: 1})
    with pytest.raises(ValueError, match="unknown key 'kernel.stepp'; did you mean 'kernel.step'"):
        sosmc.minimize(pair, kernel={"type": "ula", "stepp": 1})
    with pytest.raises(ValueError, match="kernel.step is '-1'; expected a positive number"):
        sosmc.minimize(pair, kernel={"type": "ula", "step": -1})
    with pytest.raises(ValueError, match="kernel.type is 'mela'; .*mala"):
        sosmc.minimize(pair, kernel="mela")
    with pytest.raises(TypeError, match="belongs to runs that leave a folder"):
        sosmc.minimize(pair, output={})
    with pytest.raises(TypeError, match="a setting is of type type; expected a number"):
        sosmc.minimize(pair, kernel=float)
    many = sosmc.Model(lambda t, x: (0.5 * (x * x).sum(1), x), lambda t, x, c: np.zeros(300), theta0=np.zeros(300), dim_x=2)
    with pytest.raises(ValueError, match="the solver refuses this problem: the model has 300 parameters.*explicit run"):
        sosmc.minimize(many)
    with pytest.raises(TypeError, match="model is int"):
        sosmc.minimize(3)
    with pytest.raises(TypeError, match="objective is str"):
        sosmc.minimize(pair, "mmle")


def test_a_run_that_does_not_fit_into_memory_is_refused_before_it_takes_any(pair):
    with pytest.raises(MemoryError, match="particles of at most"):
        sosmc.minimize(pair, particles=2 * 10**9, iterations=5)


def test_bad_objectives(pair):
    with pytest.raises(ValueError, match=r"data has points of 3 numbers; expected 2"):
        sosmc.minimize(pair, sosmc.likelihood(np.zeros((5, 3))))
    with pytest.raises(ValueError, match="data has values that are not finite"):
        sosmc.likelihood([[np.inf, 0]])
    with pytest.raises(ValueError, match="reward returned R of shape"):
        sosmc.minimize(pair, sosmc.reward(lambda x: x, beta=1.0), **EXPLICIT)
    with pytest.raises(ValueError, match='kl is "?.?sideways'):
        sosmc.reward("x1", kl="sideways")
    with pytest.raises(ValueError, match="is not a formula"):
        sosmc.minimize(pair, sosmc.reward("x1 +"))
    with pytest.raises(ValueError, match="needs reference"):
        sosmc.minimize(pair, sosmc.reward("x1", beta=1.0, kl="forward"))


def test_a_missing_extra_names_the_line_that_installs_it(monkeypatch):
    import sys

    for name in ["pandas", "matplotlib", "matplotlib.pyplot", "arviz"]:
        monkeypatch.setitem(sys.modules, name, None)
    r = sosmc.minimize(sosmc.models.hierarchical([1.0]), iterations=2)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'sosmc\[plot\]'"):
        r.to_pandas()
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'sosmc\[plot\]'"):
        r.plot()
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'sosmc\[arviz\]'"):
        r.to_arviz()


def test_check_names_the_coordinate(pair):
    assert sosmc.check(pair).ok

    def wrong_x(theta, x):
        u, g = energy(theta, x)
        g[:, 1] *= 1.01
        return u, g

    report = sosmc.check(sosmc.Model(wrong_x, grad_theta, theta0=np.zeros(2), dim_x=2))
    assert not report and report["gradient in x"].verdict == "FAIL" and report["gradient in x"].coordinate == 1
    assert "in coordinate 1, counted from 0" in report["gradient in x"].sentence
    report = sosmc.check(sosmc.Model(energy, lambda t, x, c: grad_theta(t, x, c) + [0.1, 0.0], theta0=np.zeros(2), dim_x=2, names=["a", "b"]))
    assert report["gradient in theta"].verdict == "FAIL" and report["gradient in theta"].parameter == "a"
    assert "in coordinate 0" in report["gradient in theta"].sentence and "is a" in report["gradient in theta"].sentence
    impure = sosmc.Model(lambda t, x: (energy(t, x)[0] + np.random.rand(len(x)), energy(t, x)[1]), grad_theta, theta0=np.zeros(2), dim_x=2)
    assert sosmc.check(impure)["repeated"].verdict == "FAIL"
    with pytest.raises(KeyError):
        report["nonsense"]
    assert "<table>" in report._repr_html_()


def bounded(**more):
    seen = []

    def on_both(theta, x):
        seen.append(x.min(axis=0))
        return 0.5 * ((x - theta) ** 2 + (x - 1) ** 2).sum(1), 2 * x - theta - 1

    bounds = {"x_low": [1, -np.inf], **more}
    return sosmc.Model(on_both, scores=lambda theta, x: (theta - x).sum(1, keepdims=True), theta0=0.0, dim_x=2, **bounds), seen


def test_bounds_of_x():
    for seed, keywords in enumerate([{}, {"kernel": {"type": "mala", "step": 0.4}, "iterations": 600}]):
        model, seen = bounded()
        r = sosmc.minimize(model, seed=seed, **keywords)
        assert abs(r.theta - 1.433758) < 4 * r.mc_error and r.mc_error < 0.02
        assert r.particles[:, 0].min() > 1 and np.min(seen, axis=0)[0] > 1
    built_in = sosmc.models.from_keys(type="hierarchical_gaussian", y=[1.0, 1.0], x_low=[1, -np.inf])
    r = sosmc.minimize(built_in, seed=0)
    assert abs(r.theta - 1.433758) < 4 * r.mc_error
    assert sosmc.check(bounded()[0])["gradient in x"].verdict == "ok"


@pytest.mark.parametrize("wrong, words", [
    ({"x_high": 1.0}, "in coordinate 0 model.x_low is 1 and model.x_high is 1"),
    ({"x_low": [1, 2, 3]}, "x_low is [1, 2, 3]; expected a number, or 2 of them"),
    ({"prox": lambda theta, x, width: x}, "proximal map and x_low"),
    ({"init": np.array([[2.0, 0.0]] * 999 + [[0.5, 0.0]])}, "init: particle 999 has 0.5 in coordinate 0"),
    ({"init": {"type": "normal"}}, "in coordinate 0, where the model's bounds are 1 and inf"),
])
def test_bounds_of_x_that_are_refused(wrong, words):
    with pytest.raises(ValueError) as caught:
        sosmc.minimize(bounded(**wrong)[0], seed=1)
    assert words in str(caught.value)
