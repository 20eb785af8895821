"""Models written in JAX: ``sosmc.from_jax``.

The user writes the energy alone.  Everything else follows from it by reverse-mode differentiation, in three compiled functions:

    forward     theta, x -> U and a function ``pull`` that holds what the derivatives need
    slope       pull     -> dU/dx            (pull applied to ones)
    contract    pull, c  -> sum_i c_i dU/dtheta(x_i)

The engine asks for the contraction at particles whose energy it has just had, so ``pull`` is kept until the next energy call and the
forward pass is not done twice.  Without a kept ``pull`` the same two compiled functions run one after the other: a result has the same
bits whether the pass was shared or not, because it is the same machine code on the same numbers.

Arrays go to JAX as (dim_x, n), the engine's own layout, and are copied on the way: a JAX array that aliased the engine's memory would
change under JAX's feet, and the copy costs less than any energy.
"""

from __future__ import annotations

from typing import Any, Callable

import numpy as np

from ._calls import Array
from ._extras import require
from .model import WHOLE, Model

_WIDTHS = {"float32": np.dtype(np.float32), "float64": np.dtype(np.float64)}
ROUNDING = 1e-7  # relative rounding error of an energy in float32
MOST_NAMES = 1000  # numbers of theta that get names of their own


class Tree:
    """theta as the user writes it (any pytree of arrays) and as the engine holds it (one vector)."""

    def __init__(self, theta0: Any) -> None:
        jax = require("jax")
        self.dtype = _dtype(jax, theta0)
        leaves, self.tree = jax.tree_util.tree_flatten(theta0)
        self.shapes = [np.shape(leaf) for leaf in leaves]
        ends = np.cumsum([int(np.prod(shape)) for shape in self.shapes])
        self.parts = [slice(int(end) - int(np.prod(shape)), int(end)) for end, shape in zip(ends, self.shapes)]
        self.flat0 = np.concatenate([np.ravel(np.asarray(leaf, dtype=np.float64)) for leaf in leaves])
        paths = jax.tree_util.tree_flatten_with_path(theta0)[0] if self.flat0.size <= MOST_NAMES else []
        self.names = [name for (path, _), shape in zip(paths, self.shapes)
                      for name in _names(jax.tree_util.keystr(path), shape)]

    def abstract(self) -> Any:
        """The structure with shapes alone."""
        jax = require("jax")
        return jax.tree_util.tree_unflatten(self.tree, [jax.ShapeDtypeStruct(shape, self.dtype) for shape in self.shapes])

    def build(self, flat: Any) -> Any:
        """The user's own structure, from a vector that JAX traces."""
        jax = require("jax")
        return jax.tree_util.tree_unflatten(
            self.tree, [flat[part].reshape(shape) for part, shape in zip(self.parts, self.shapes)])

    def pack(self, theta: Any) -> Array:
        jax = require("jax")
        leaves, tree = jax.tree_util.tree_flatten(theta)
        if tree != self.tree or [np.shape(leaf) for leaf in leaves] != self.shapes:
            raise ValueError(f"theta has the structure {tree} with shapes {[np.shape(leaf) for leaf in leaves]}; "
                             f"this model's is {self.tree} with shapes {self.shapes}")
        return np.concatenate([np.ravel(np.asarray(leaf, dtype=np.float64)) for leaf in leaves])

    def unpack(self, flat: Array) -> Any:
        """The user's own structure, of NumPy arrays in double precision: what the run found, not what JAX would round it to."""
        jax = require("jax")
        flat = np.array(flat, dtype=np.float64)
        return jax.tree_util.tree_unflatten(
            self.tree, [flat[part].reshape(shape) for part, shape in zip(self.parts, self.shapes)])


def _names(path: str, shape: tuple[int, ...]) -> list[str]:
    stem = path.replace("['", ".").replace("']", "").lstrip(".") or "theta"
    if stem.startswith("["):
        stem = "theta" + stem
    if not shape:
        return [stem]
    return [f"{stem}[{','.join(map(str, index))}]" for index in np.ndindex(*shape)]


def _dtype(jax: Any, theta0: Any) -> np.dtype[Any]:
    """float32 or float64: that of theta0's leaves. Python's own numbers take JAX's default."""
    leaves = jax.tree_util.tree_leaves(theta0)
    if not leaves:
        raise ValueError("theta0 has no leaves; it must hold at least one number")
    wide = bool(jax.config.jax_enable_x64)
    default = np.dtype(np.float64 if wide else np.float32)
    dtypes = {default if isinstance(leaf, (float, int)) else np.dtype(leaf.dtype) for leaf in leaves}
    for dtype in sorted(dtypes, key=str):
        if dtype.name not in _WIDTHS:
            raise TypeError(f"theta0 has a leaf of {dtype.name}; every leaf must be float32 or float64")
    if np.dtype(np.float64) in dtypes and not wide:
        raise TypeError("theta0 has leaves of float64, which JAX would shorten to float32 without a word; "
                        "call jax.config.update('jax_enable_x64', True) before, or give float32 leaves")
    return np.dtype(np.float64) if np.dtype(np.float64) in dtypes else np.dtype(np.float32)


def _takes_batch(jax: Any, U: Callable[..., Any], theta: Any, dim_x: int, dtype: np.dtype[Any]) -> bool:
    """Whether U is written for a batch (n, dim_x). One that takes a single particle is preferred: vmap cannot mix particles."""
    def shape_of(shape: tuple[int, ...]) -> Any:
        try:
            out = jax.eval_shape(U, theta, jax.ShapeDtypeStruct(shape, dtype))
            return tuple(out.shape)
        except (TypeError, ValueError, IndexError, AttributeError) as error:
            return error

    one = shape_of((dim_x,))
    if one in ((), (1,)):
        return False
    n = dim_x + 3
    many = shape_of((n, dim_x))
    if many in ((n,), (n, 1)):
        return True
    if isinstance(one, Exception) and isinstance(many, Exception):
        raise ValueError(f"U fails for one particle of shape ({dim_x},) and for a batch of shape ({n}, {dim_x}); "
                         f"the first says: {one}") from one
    raise ValueError(
        f"U returns {_shown(one)} for one particle of shape ({dim_x},) and {_shown(many)} for a batch of shape ({n}, {dim_x}); "
        f"it must return one number for a particle (shape ()) or one per particle for a batch (shape ({n},))")


def _shown(shape: Any) -> str:
    return "an error" if isinstance(shape, Exception) else f"shape {shape}"


class Passes:
    """The compiled functions behind a model, as sosmc.Model takes them: theta is a flat vector, x has shape (n, dim_x)."""

    def __init__(self, batch_U: Callable[[Any, Any], Any], dtype: np.dtype[Any]) -> None:
        jax = require("jax")
        self.dtype = dtype
        self.ones: dict[int, Array] = {}

        def by_rows(flat: Any, rows: Any) -> Any:
            return batch_U(flat, rows.T)

        def one_U(flat: Any, x: Any) -> Any:
            return batch_U(flat, x[None, :])[0]

        self.only = jax.jit(by_rows)
        self.forward = jax.jit(lambda flat, rows: jax.vjp(by_rows, flat, rows))
        self.slope = jax.jit(lambda pull, ones: pull(ones)[1])
        self.contract = jax.jit(lambda pull, c: pull(c)[0])
        self.each = jax.jit(jax.vmap(jax.grad(one_U), (None, 0)))

    def own(self, a: Array) -> Array:
        """A compact copy in the precision of the model."""
        return np.array(a, dtype=self.dtype, order="C")

    def pull(self, theta: Array, x: Array) -> Any:
        return self.forward(self.own(theta), self.own(x.T))

    def value(self, theta: Array, x: Array) -> Array:
        return np.asarray(self.only(self.own(theta), self.own(x.T)))

    def energy(self, theta: Array, x: Array) -> tuple[Array, Array, Any]:
        U, pull = self.pull(theta, x)
        n = len(x)
        if n not in self.ones:
            self.ones[n] = np.ones(n, dtype=self.dtype)
        return np.asarray(U), np.asarray(self.slope(pull, self.ones[n])).T, pull

    def grad_theta(self, theta: Array, x: Array, c: Array, kept: Any = None) -> Array:
        pull = self.pull(theta, x)[1] if kept is None else kept
        return np.asarray(self.contract(pull, self.own(c)))

    def scores(self, theta: Array, x: Array) -> Array:
        return np.asarray(self.each(self.own(theta), self.own(x)))

    def options(self, share: bool) -> dict[str, Any]:
        """What sosmc.Model is told about these functions."""
        return {"energy": self.energy if share else lambda theta, x: self.energy(theta, x)[:2], "grad_theta": self.grad_theta,
                "value": self.value, "scores": self.scores, "shares_forward": share, "flat_theta": True, "tile": WHOLE,
                "rounding": ROUNDING if self.dtype == np.float32 else 0.0}


def from_jax(U: Callable[[Any, Any], Any], theta0: Any, dim_x: int, *, batched: bool | None = None, share: bool = True,
             name: str = "jax", **options: Any) -> Model:
    """A model from an energy written in JAX; all gradients are derived from it.

    U(theta, x)
        The energy of one particle x of shape (dim_x,), one number; or of a batch of shape (n, dim_x), n numbers.  Which of the two is
        found out, and `batched=True` or `False` says it.  It must be a pure function that JAX can trace.
    theta0
        Where theta starts: any pytree of float32 or float64 arrays.  Its leaves decide the precision in which U is computed (float64 needs
        ``jax.config.update("jax_enable_x64", True)``); results have theta in the same structure.
    share
        Use the forward pass of the energy again for the contraction that follows.  The results have the same bits either way.
    options
        Whatever else ``sosmc.Model`` takes: `init`, `rows`, `log_z`, ...

    U is compiled once for every number of particles that the engine asks for.

    >>> import jax.numpy as jnp, sosmc
    >>> y = jnp.array([1.0, -2.0])
    >>> def U(theta, x):
    ...     return 0.5 * jnp.sum((x - theta["mean"]) ** 2 + (x - y) ** 2)
    >>> model = sosmc.from_jax(U, {"mean": jnp.zeros(2)}, dim_x=2)
    >>> sosmc.minimize(model, kernel="mala", iterations=300, seed=1).theta["mean"].round(0) + 0.0
    array([ 1., -2.])
    """
    jax = require("jax")
    if not callable(U):
        raise TypeError(f"U is {type(U).__name__}; expected a function U(theta, x)")
    shape = Tree(theta0)
    if batched is None:
        batched = _takes_batch(jax, U, shape.abstract(), dim_x, shape.dtype)
    whole = U if batched else jax.vmap(U, (None, 0))
    passes = Passes(lambda flat, x: whole(shape.build(flat), x).reshape(x.shape[0]), shape.dtype)
    options = {"names": shape.names or None} | passes.options(share) | options
    return Model(theta0=theta0, dim_x=dim_x, pack=shape.pack, unpack=shape.unpack, name=name, **options)
