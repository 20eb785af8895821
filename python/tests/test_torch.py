"""Models from PyTorch: gradients, networks and their state_dicts, the shared graph and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import sosmc
from frameworks import OBJECTIVES, expect_gradients, expect_missing, hash_of, need

torch = need("torch")


def network(dtype=torch.float32):
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.SiLU(), torch.nn.Linear(8, 1)).to(dtype)


def held(theta, x):
    """A small network over a Gaussian, as a function of a dict."""
    return torch.tanh(x @ theta["W"].T + theta["b"]) @ theta["v"] + 0.5 * (x**2).sum(1)


def start(dtype=torch.float64):
    torch.manual_seed(1)
    return {"W": torch.randn(5, 2, dtype=dtype), "b": torch.zeros(5, dtype=dtype), "v": torch.randn(5, dtype=dtype)}


class Over(torch.nn.Module):
    """A network over a Gaussian, with a buffer, a parameter that stays as it is, and dropout that must not act."""

    def __init__(self, dtype=torch.float32):
        super().__init__()
        self.inside = network(dtype)
        self.drop = torch.nn.Dropout(0.5)
        self.fixed = torch.nn.Parameter(torch.ones(2, dtype=dtype), requires_grad=False)
        self.register_buffer("scale", torch.tensor(0.5, dtype=dtype))

    def forward(self, x):
        return self.drop(self.inside(x))[:, 0] + (self.scale * self.fixed * x**2).sum(1)


def test_gradients_follow_from_the_energy():
    expect_gradients(sosmc.from_torch(held, start(), 2), n=7)
    expect_gradients(sosmc.from_torch(held, start(), 2), n=40)  # more particles than parameters: scores the other way
    expect_gradients(sosmc.from_torch(Over(torch.float64), dim_x=2), n=5)


def test_a_tensor_that_is_not_used_has_no_gradient():
    model = sosmc.from_torch(lambda t, x: ((x - t["m"]) ** 2).sum(1), {"m": torch.zeros(2), "unused": torch.zeros(3)}, 2)
    x, c = np.random.default_rng(0).normal(size=(6, 2)), np.ones(6)
    assert np.all(model.grad_theta(model.theta0, x, c)[2:] == 0) and np.any(model.grad_theta(model.theta0, x, c)[:2] != 0)
    assert np.all(model.scores(model.theta0, x)[:, 2:] == 0)


def test_results_are_a_state_dict():
    module = Over()
    model = sosmc.from_torch(module, dim_x=2)
    assert model.dim_theta == 8 * 2 + 8 + 8 + 1 and model.rounding == 1e-7
    before = {key: value.clone() for key, value in module.state_dict().items()}
    result = sosmc.minimize(model, sosmc.reward(lambda x: x[:, 0], beta=1.0), kernel="mala", iterations=5, particles=64)
    assert all(torch.equal(before[key], value) for key, value in module.state_dict().items()) and module.training
    module.load_state_dict(result.theta)
    found = torch.cat([p.detach().reshape(-1) for p in module.parameters() if p.requires_grad])
    assert np.allclose(found.numpy(), result.theta_flat, rtol=1e-6) and not np.allclose(result.theta_flat, model.theta0)
    x = torch.randn(4, 2)
    assert np.allclose(model.value(result.theta_flat, x.numpy()), module.eval()(x).detach().numpy(), atol=1e-5)


@pytest.mark.parametrize("shape", [torch.zeros(2), [torch.zeros(()), torch.ones(())], (torch.zeros(2), torch.ones(1)),
                                   {"a": torch.zeros(2)}])
def test_shapes_of_theta(shape):
    def U(theta, x):
        parts = theta if isinstance(theta, (list, tuple)) else list(theta.values()) if isinstance(theta, dict) else [theta]
        return (x**2).sum(1) + sum(p.sum() for p in parts)

    model = sosmc.from_torch(U, shape, 2)
    back = model.unpack(model.theta0)
    assert type(back) is type(shape) and np.array_equal(model.pack(back), model.theta0)


@pytest.mark.parametrize("kernel, objective, particles, dtype", [
    ("ula", "mmle", 96, torch.float64), ("ula", "reverse", 93, torch.float32), ("mala", "likelihood", 96, torch.float32),
    ("hmc", "batch", 93, torch.float64), ("rwm", "reverse", 96, torch.float32)])
def test_sharing_the_graph_changes_no_bit(kernel, objective, particles, dtype):
    shared, alone = (sosmc.from_torch(held, start(dtype), 2, share=share) for share in (True, False))
    keywords = {"kernel": kernel, "particles": particles}
    assert hash_of(shared, OBJECTIVES[objective](), **keywords) == hash_of(alone, OBJECTIVES[objective](), **keywords)


def test_the_solver():
    y = torch.tensor([1.0, -2.0], dtype=torch.float64)
    model = sosmc.from_torch(lambda t, x: 0.5 * ((x - t) ** 2 + (x - y) ** 2).sum(1), torch.zeros(2, dtype=torch.float64), 2)
    result = sosmc.minimize(model)
    assert result.success and np.all(np.abs(result.theta_flat - y.numpy()) < 3 * result.mc_error.numpy())


def refused(error, match, *args, **keywords):
    with pytest.raises(error, match=match):
        sosmc.from_torch(*args, **keywords)


def test_refusals():
    refused(ValueError, "dim_x is 0", network())
    refused(TypeError, "U is int", 3, dim_x=2)
    refused(TypeError, "needs theta0 beside a function", held, dim_x=2)
    refused(TypeError, "a network brings its own theta0", network(), torch.zeros(2), 2)
    refused(TypeError, "theta holds float", held, {"W": 1.0}, 2)
    refused(TypeError, "float32 and float64", held, {**start(), "b": torch.zeros(5)}, 2)
    refused(TypeError, "tensors of int64", held, torch.zeros(2, dtype=torch.int64), 2)
    refused(ValueError, r"shape \(3, 2\) for 3 particles; expected \(3,\) or \(3, 1\)", lambda t, x: x + t, torch.zeros(2), 2)
    refused(ValueError, "nothing to optimise", torch.nn.Flatten(), dim_x=2)
    refused(ValueError, "not finite", lambda t, x: x.sum(1) * t, torch.tensor(float("nan")), 2)
    with pytest.raises(ValueError, match="expected"):
        sosmc.from_torch(held, start(), 2).pack({"W": torch.zeros(5, 2)})


def test_an_exception_of_the_energy_arrives_as_itself():
    calls = []

    def U(theta, x):
        calls.append(1)
        if len(calls) > 6:
            raise KeyError("seventh")
        return (x**2).sum(1) * (1 + theta[0] ** 2)

    with pytest.raises(KeyError, match="seventh") as caught:
        hash_of(sosmc.from_torch(U, torch.zeros(1, dtype=torch.float64), 2))
    assert any("sosmc" in note for note in caught.value.__notes__)


def test_without_torch(monkeypatch):
    theta = start()
    expect_missing(monkeypatch, "torch", "torch", lambda: sosmc.from_torch(held, theta, 2))
