"""What from_numpyro and from_pymc have in common: a probabilistic program whose named parameters are optimised and whose other
variables are the particles.

Both hand over three JAX functions of theta (the optimised parameters on the unconstrained scale, one vector) and x (the latent
variables, likewise): the potential, the parameters by name on their own scale, and the latent variables by name on theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._calls import Array
from ._extras import require
from .jax import Passes
from .model import Model


@dataclass
class Layout:
    """Where each variable stands in a vector: names, shapes on the unconstrained scale, and the numbers they begin at."""

    shapes: dict[str, tuple[int, ...]]

    @property
    def size(self) -> int:
        return sum(int(np.prod(shape)) for shape in self.shapes.values())

    def split(self, vector: Any) -> dict[str, Any]:
        out, at = {}, 0
        for name, shape in self.shapes.items():
            end = at + int(np.prod(shape))
            out[name] = vector[at:end].reshape(shape)
            at = end
        return out

    def join(self, values: Mapping[str, Any]) -> Array:
        return np.concatenate([np.ravel(np.asarray(values[name], dtype=np.float64)) for name in self.shapes] or [np.zeros(0)])

    def where(self, index: int) -> str:
        """The name of one number, with its index inside the variable."""
        for name, shape in self.shapes.items():
            count = int(np.prod(shape))
            if index < count:
                return name if not shape else f"{name}[{','.join(map(str, np.unravel_index(index, shape)))}]"
            index -= count
        raise IndexError(index)

    def names(self) -> list[str]:
        return [self.where(i) for i in range(self.size)]


@dataclass
class Program:
    """The three functions, traced by JAX, and where they begin."""

    potential: Callable[[Any, Any], Any]  # theta, x -> -log p(x, data | theta), one particle
    parameters: Callable[[Any], dict[str, Any]]  # theta -> the optimised parameters on their own scale
    sites: Callable[[Any, Any], dict[str, Any]]  # theta, x -> latent and derived variables on their own scale
    theta: Layout
    x: Layout
    theta0: Array
    x0: Array
    dtype: np.dtype


def chosen(optimise: Iterable[str] | str, known: Iterable[str], what: str) -> list[str]:
    """The names in `optimise`, each of them known; a sentence otherwise."""
    import difflib

    names = [optimise] if isinstance(optimise, str) else list(optimise)
    known = list(known)
    if not names:
        raise ValueError(f"optimise is empty; name at least one of {_listed(known)}")
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(str(name), known, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {_listed(known)}"
            raise ValueError(f"optimise names {name!r}, which is no {what} of the model; {hint}")
        if names.count(name) > 1:
            raise ValueError(f"optimise names {name!r} twice")
    if len(names) == len(known):
        raise ValueError("optimise names every variable of the model, so that no latent variable is left to integrate over; "
                         "leave one out, or use an ordinary optimiser")
    return names


def _listed(names: list[str]) -> str:
    return ", ".join(repr(name) for name in names) or "none"


def check_prior(prior: str) -> bool:
    if prior not in ("drop", "keep"):
        raise ValueError(f"prior is {prior!r}; it must be 'drop' (marginal likelihood) or 'keep' (mode of the marginal posterior)")
    return prior == "keep"


class ProgramScale:
    """Results on the scale of the program itself (sosmc.model.Scale)."""

    def __init__(self, program: Program, own: Callable[[Array], Array]) -> None:
        jax = require("jax")
        self._own, self._order = own, list(program.theta.shapes)  # JAX sorts the names of a dict
        self._parameters = jax.jit(program.parameters)
        self._slopes = jax.jit(jax.jacfwd(program.parameters))
        self._sites = jax.jit(jax.vmap(program.sites, (None, 0)))
        self.names = Layout({name: np.shape(value) for name, value in self.theta(program.theta0).items()}).names()

    def theta(self, flat: Array) -> dict[str, Array]:
        found = self._parameters(self._own(flat))
        return {name: np.asarray(found[name], dtype=np.float64) for name in self._order}

    def flat(self, theta: dict[str, Array]) -> Array:
        return np.concatenate([np.ravel(theta[name]) for name in self._order])

    def errors(self, flat: Array, errors: Array, covariance: Array | None) -> dict[str, Array]:
        """By the delta method. Without a covariance the errors on the unconstrained scale count as independent, which only matters to
        parameters whose numbers depend on each other, such as probabilities."""
        out = {}
        covariance = np.diag(errors**2) if covariance is None else covariance
        slopes = self._slopes(self._own(flat))
        for name in self._order:
            J = np.asarray(slopes[name], dtype=np.float64)
            out[name] = np.asarray(np.sqrt(np.einsum("...i,ij,...j->...", J, covariance, J)))
        return out

    def particles(self, flat: Array, x: Array) -> dict[str, Array]:
        return {name: np.asarray(value, dtype=np.float64) for name, value in self._sites(self._own(flat), self._own(x)).items()}

    def free(self, layout: Layout) -> list[str]:
        """Names of the numbers that the engine moves; those on another scale than the program's say so."""
        point = np.linspace(-0.7, 0.9, layout.size)
        theta, moved = self.theta(point), layout.split(point)
        same = {name for name, value in theta.items() if value.shape == moved[name].shape and np.allclose(value, moved[name], atol=1e-5)}
        return [name if name.split("[")[0] in same else f"{name} (unconstrained)" for name in layout.names()]


class ProgramModel(Model):
    """A sosmc.Model of a probabilistic program; its results are dicts of names on the scale of the program itself."""

    def __init__(self, program: Program, name: str, *, share: bool, inverse: Callable[[dict[str, Any]], Array],
                 options: dict[str, Any]) -> None:
        passes = Passes(require("jax").vmap(program.potential, (None, 0)), program.dtype)
        check_mode(program, passes)
        scale = ProgramScale(program, passes.own)
        begin = scale.theta(program.theta0)
        super().__init__(theta0=begin, dim_x=program.x.size, name=name, unpack=scale.theta,
                         pack=lambda theta: program.theta0 if theta is begin else inverse(theta),
                         **(passes.options(share) | {"names": scale.free(program.theta)} | options))
        self.program, self.scale = program, scale


def check_mode(program: Program, passes: Passes) -> None:
    """Refuses a program whose density is not finite where it starts, or grows without bound."""
    from ._mode import descend, unbounded

    jax = require("jax")
    theta = program.theta0
    eps = float(np.finfo(program.dtype).eps)

    def slope(x: Array) -> tuple[float, Array]:
        U, gx, _ = passes.energy(theta, x[None, :])
        return (float(U[0]) if not np.isnan(U[0]) else np.inf), gx[0].astype(np.float64)

    curvature = jax.jit(jax.hessian(program.potential, 1))
    value, start_slope = slope(program.x0)
    if not np.isfinite(value) or not np.all(np.isfinite(start_slope)):
        raise ValueError(f"the density of the model is not finite where it starts (-log p = {value:g}, {_where(program, program.x0)}); "
                         "give another theta0")
    rng = np.random.default_rng(0)
    for x in [program.x0, *(program.x0 + rng.normal(size=(2, program.x.size)))]:
        end = descend(slope, x, 10 * eps)
        if unbounded(end, lambda at: curvature(theta.astype(program.dtype), at.astype(program.dtype)), eps):
            worst = program.x.where(int(np.argmax(np.abs(end.x - x))))
            raise ValueError(
                f"the model has no mode: at the starting parameters its density grows without bound (-log p fell from {value:.4g} to "
                f"{end.value:.4g} as {worst!r} went to {end.x[np.argmax(np.abs(end.x - x))]:.3g} on the unconstrained scale); "
                "optimise that variable, or write the model so that its density is bounded (a hierarchy with a latent scale: "
                "effects = mean + scale * z, with z standard normal)")


def _where(program: Program, x: Array) -> str:
    return f"at the starting point of {len(program.x.shapes)} latent and {len(program.theta.shapes)} optimised variables"
