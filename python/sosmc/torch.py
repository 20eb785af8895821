"""Models written in PyTorch: ``sosmc.from_torch``.

The user writes the energy alone, as a function or as a network.  An energy call builds PyTorch's graph and takes dU/dx from it; the
contraction that follows takes its gradient from the same graph, so that the forward pass is done once.  Where the graph is gone it is
built again by the same operations, and the result has the same bits.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ._calls import Array
from ._extras import require
from .model import WHOLE, Model

_ROUNDING = {"float32": 1e-7, "float64": 0.0}
_MOST_NAMES = 1000  # numbers of theta that get names of their own


class _Leaves:
    """theta as the user writes it (a tensor, or a dict, list or tuple of tensors) and as the engine holds it (one vector)."""

    def __init__(self, theta0: Any) -> None:
        self.kind = type(theta0)
        self.keys = list(theta0) if isinstance(theta0, Mapping) else list(range(len(theta0))) if isinstance(theta0, (list, tuple)) else None
        tensors = self.tensors(theta0)
        if not tensors:
            raise ValueError("theta0 has no tensors; it must hold at least one number")
        kinds = sorted({str(tensor.dtype).removeprefix("torch.") for tensor in tensors})
        if len(kinds) > 1 or kinds[0] not in _ROUNDING:
            raise TypeError(f"theta has tensors of {' and '.join(kinds)}; all of them must be float32, or all float64")
        self.precision, self.dtype, self.device = kinds[0], tensors[0].dtype, tensors[0].device
        self.shapes = [tuple(tensor.shape) for tensor in tensors]
        ends = np.cumsum([int(np.prod(shape)) for shape in self.shapes])
        self.parts = [slice(int(end) - int(np.prod(shape)), int(end)) for end, shape in zip(ends, self.shapes)]

    def tensors(self, theta: Any) -> list[Any]:
        torch = require("torch")
        leaves = [theta] if self.keys is None else [theta[key] for key in self.keys]
        for leaf in leaves:
            if not isinstance(leaf, torch.Tensor):
                raise TypeError(f"theta holds {type(leaf).__name__}; expected a tensor, or a dict, list or tuple of tensors")
        return leaves

    def pack(self, theta: Any) -> Array:
        if self.keys is not None and (len(theta) != len(self.keys) or (isinstance(theta, Mapping) and set(theta) != set(self.keys))):
            raise ValueError(f"theta has {len(theta)} tensors, {list(theta)[:8]}; expected {self.keys[:8]}")
        tensors = self.tensors(theta)
        for tensor, shape in zip(tensors, self.shapes):
            if tuple(tensor.shape) != shape:
                raise ValueError(f"theta has a tensor of shape {tuple(tensor.shape)}; expected {shape}")
        return np.concatenate([tensor.detach().cpu().numpy().astype(np.float64).reshape(-1) for tensor in tensors])

    def leaves(self, flat: Array) -> list[Any]:
        """Tensors of their own, in the precision of the model."""
        torch = require("torch")
        whole = torch.from_numpy(np.array(flat, dtype=self.precision)).to(self.device)
        return [whole[part].view(shape) for part, shape in zip(self.parts, self.shapes)]

    def build(self, leaves: list[Any]) -> Any:
        if self.keys is None:
            return leaves[0]
        if isinstance(self.keys, list) and issubclass(self.kind, (list, tuple)):
            return tuple(leaves) if issubclass(self.kind, tuple) else leaves
        return dict(zip(self.keys, leaves))

    def unpack(self, flat: Array) -> Any:
        return self.build(self.leaves(flat))

    def names(self) -> list[str] | None:
        if self.parts[-1].stop > _MOST_NAMES:
            return None
        stems = ["theta"] if self.keys is None else [f"theta[{key}]" if isinstance(key, int) else str(key) for key in self.keys]
        return [stem if not shape else f"{stem}[{','.join(map(str, index))}]" for stem, shape in zip(stems, self.shapes)
                for index in np.ndindex(*shape)]


class _Passes:
    """Energies and gradients as sosmc.Model takes them: theta is a flat vector, x has shape (n, dim_x)."""

    def __init__(self, U: Callable[[Any, Any], Any], shape: _Leaves) -> None:
        self.torch, self.U, self.shape = require("torch"), U, shape

    def tensor(self, a: Array) -> Any:
        return self.torch.from_numpy(np.array(a, dtype=self.shape.precision, order="C")).to(self.shape.device)

    def evaluate(self, leaves: list[Any], x: Any) -> Any:
        out = self.U(self.shape.build(leaves), x)
        n = len(x)
        if tuple(out.shape) not in ((n,), (n, 1)):
            raise ValueError(f"U returned a tensor of shape {tuple(out.shape)} for {n} particles; expected ({n},) or ({n}, 1)")
        return out.reshape(n)

    def graph(self, theta: Array, x: Array) -> tuple[Any, list[Any], Any]:
        with self.torch.enable_grad():
            leaves = [leaf.requires_grad_(True) for leaf in self.shape.leaves(theta)]
            point = self.tensor(x).requires_grad_(True)
            return self.evaluate(leaves, point), leaves, point

    def value(self, theta: Array, x: Array) -> Array:
        with self.torch.no_grad():
            return _numpy(self.evaluate(self.shape.leaves(theta), self.tensor(x)))

    def energy(self, theta: Array, x: Array) -> tuple[Array, Array, Any]:
        U, leaves, point = self.graph(theta, x)
        (gx,) = self.torch.autograd.grad(U, point, self.torch.ones_like(U), retain_graph=True)
        return _numpy(U), _numpy(gx), (U, leaves)

    def grad_theta(self, theta: Array, x: Array, c: Array, kept: Any = None) -> Array:
        U, leaves = self.graph(theta, x)[:2] if kept is None else kept
        return _numpy(self.slopes(U, leaves, self.tensor(c), False))

    def slopes(self, U: Any, leaves: list[Any], c: Any, differentiable: bool) -> Any:
        """sum_i c_i dU_i/dtheta, one vector; a tensor that U does not use counts as zero."""
        found = self.torch.autograd.grad(U, leaves, c, retain_graph=True, create_graph=differentiable, allow_unused=True)
        return self.torch.cat([(leaf * 0 if g is None else g).reshape(-1) for g, leaf in zip(found, leaves)])

    def scores(self, theta: Array, x: Array) -> Array:
        """dU_i/dtheta_j: by a gradient per particle, or, where theta has fewer numbers, by one per number of theta, because the
        contraction is linear in c."""
        U, leaves, _ = self.graph(theta, x)
        n, p = len(x), self.shape.parts[-1].stop
        if n <= p:
            return np.stack([_numpy(self.slopes(U[i], leaves, None, False)) for i in range(n)])
        c = self.torch.ones_like(U).requires_grad_(True)
        g = self.slopes(U, leaves, c, True)
        columns = [self.torch.autograd.grad(g[j], c, retain_graph=True, allow_unused=True)[0] for j in range(p)]
        return np.stack([np.zeros(n) if column is None else _numpy(column) for column in columns], 1)


def _numpy(tensor: Any) -> Array:
    out: Array = tensor.detach().cpu().numpy()
    return out


def _as_function(module: Any) -> tuple[Callable[[Any, Any], Any], dict[str, Any]]:
    """A network as a function of its parameters. The copy is in evaluation mode: dropout would make the energy random."""
    torch = require("torch")
    network = copy.deepcopy(module).eval()
    theta0 = {name: p.detach() for name, p in network.named_parameters() if p.requires_grad}
    if not theta0:
        raise ValueError("the network has no parameter that requires a gradient; there is nothing to optimise")
    if hasattr(torch, "func"):
        return lambda theta, x: torch.func.functional_call(network, theta, (x,)), theta0
    stateless = require("torch.nn.utils.stateless")
    return lambda theta, x: stateless.functional_call(network, theta, (x,)), theta0


def from_torch(U: Any, theta0: Any = None, dim_x: int = 0, *, share: bool = True, name: str = "torch", **options: Any) -> Model:
    """A model from an energy written in PyTorch; all gradients are derived from it.

    U
        A function U(theta, x) of a batch x, a tensor of shape (n, dim_x), that returns the n energies; or a ``torch.nn.Module`` called
        with x alone.  A network is copied, in evaluation mode; those of its parameters that require a gradient are theta.
    theta0
        Where theta starts: a tensor, or a dict, list or tuple of tensors, float32 or float64.  A network brings its own.
    share
        Use the graph of the energy again for the contraction that follows.  The results have the same bits either way.
    options
        Whatever else ``sosmc.Model`` takes: `init`, `rows`, `log_z`, ...

    Results have theta in the shape of theta0; for a network it is a state_dict, which ``network.load_state_dict`` takes.

    >>> network = torch.nn.Sequential(torch.nn.Linear(2, 32), torch.nn.SiLU(), torch.nn.Linear(32, 1))   # doctest: +SKIP
    >>> model = sosmc.from_torch(network, dim_x=2)                                                       # doctest: +SKIP
    """
    torch = require("torch")
    fixed: dict[str, Any] = {}
    if isinstance(U, torch.nn.Module):
        if theta0 is not None:
            raise TypeError("a network brings its own theta0: set its parameters instead, or give a function U(theta, x)")
        state = U.state_dict()
        U, theta0 = _as_function(U)
        fixed = {key: tensor.detach().clone() for key, tensor in state.items() if key not in theta0}
    elif not callable(U):
        raise TypeError(f"U is {type(U).__name__}; expected a function U(theta, x) or a torch.nn.Module")
    elif theta0 is None:
        raise TypeError("from_torch needs theta0 beside a function: a tensor, or a dict, list or tuple of tensors")
    if isinstance(dim_x, bool) or not isinstance(dim_x, (int, np.integer)) or dim_x < 1:
        raise ValueError(f"dim_x is {dim_x!r}; expected the number of coordinates of a particle, at least 1")
    shape = _Leaves(theta0)
    passes = _Passes(U, shape)
    passes.value(shape.pack(theta0), np.zeros((3, dim_x)))  # a wrong shape is said here, not in the first iteration
    options = {"names": shape.names(), "tile": WHOLE, "rounding": _ROUNDING[shape.precision]} | options
    unpack = (lambda flat: fixed | shape.unpack(flat)) if fixed else shape.unpack
    pack = (lambda theta: shape.pack({key: theta[key] for key in shape.keys or []})) if fixed else shape.pack
    return Model(passes.energy if share else lambda theta, x: passes.energy(theta, x)[:2], passes.grad_theta, theta0, dim_x,
                 value=passes.value, scores=passes.scores, pack=pack, unpack=unpack, flat_theta=True, shares_forward=share, name=name,
                 **options)
