"""Marginal likelihoods of PyMC models: ``sosmc.from_pymc``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ._calls import Array
from ._extras import require
from ._programs import Layout, Program, ProgramModel, check_prior, chosen


def from_pymc(model: Any = None, *, optimise: Iterable[str] | str, prior: str = "drop", theta0: Mapping[str, Any] | None = None,
              share: bool = True, **options: Any) -> ProgramModel:
    """The marginal likelihood of a PyMC model as a model for ``sosmc.minimize``.

    The free variables named in `optimise` are the parameters theta; all others are integrated over by particles, on the unconstrained
    scale with the Jacobians that belong to it.  PyMC's graph is translated to JAX, in double precision.

    model
        A ``pymc.Model``; without one, that of the surrounding ``with`` block.
    optimise
        Names of the parameters.  Results are dicts of these names, on the scale of the model.
    prior
        "drop": the parameters' own priors do not count, and the result is the maximum of the marginal likelihood.
        "keep": they do, and the result is the mode of the marginal posterior of the parameters.
    theta0
        Where to start, by name, on the scale of the model; what is missing starts where PyMC would start.

    >>> with pymc.Model() as schools: ...                                                # doctest: +SKIP
    >>> sosmc.minimize(sosmc.from_pymc(schools, optimise=["mu", "tau"])).theta           # doctest: +SKIP
    {'mu': array(8.02), 'tau': array(19.76)}
    """
    pymc = require("pymc")
    require("jax", extra="pymc")
    keep = check_prior(prior)
    model = pymc.modelcontext(model)
    if not isinstance(model, pymc.Model):
        raise TypeError(f"model is {type(model).__name__}; expected a pymc.Model")
    free = {variable.name: variable for variable in model.free_RVs}
    names = chosen(optimise, free, "free variable")
    _refuse(model)
    program = _program(model, free, names, keep, dict(theta0 or {}))
    options = {"rows": _rows(model)} | options
    return ProgramModel(program, model.name or "pymc", share=share, options=options,
                        inverse=lambda theta: program.theta.join(_start(model, free, names, _complete(theta, names), "theta")))


def _refuse(model: Any) -> None:
    for variable in model.free_RVs:
        if np.dtype(variable.dtype).kind != "f":
            raise ValueError(f"variable {variable.name!r} is discrete; particles are continuous: "
                             "marginalise it in the model, or observe it")
    for variable in model.observed_RVs:
        if "Minibatch" in type(variable.owner.op).__name__:
            raise ValueError(f"variable {variable.name!r} is subsampled (total_size); particles need the whole density: "
                             "give it all of its data")


def _rows(model: Any) -> int:
    """Observed numbers, for BIC."""
    return sum(int(np.size(model.rvs_to_values[variable].data)) for variable in model.observed_RVs)


def _complete(theta: Mapping[str, Any], names: list[str]) -> dict[str, Any]:
    if set(theta) != set(names):
        raise ValueError(f"theta has {', '.join(map(repr, theta))}; expected {', '.join(map(repr, names))}")
    return dict(theta)


def _program(model: Any, free: dict[str, Any], names: list[str], keep: bool, theta0: dict[str, Any]) -> Program:
    start = _start(model, free, names, theta0)
    theta = Layout({name: np.shape(start[name]) for name in names})
    x = Layout({name: np.shape(value) for name, value in start.items() if name not in names})
    latent = [free[name] for name in x.shapes]
    density = model.logp(vars=[*latent, *model.observed_RVs, *model.potentials], jacobian=True)
    if keep:
        density = density + model.logp(vars=[free[name] for name in names], jacobian=False)
    values = {name: model.rvs_to_values[variable] for name, variable in free.items()}
    outputs = {variable.name: variable for variable in model.unobserved_value_vars
               if variable.name not in {value.name for value in values.values()} or variable.name in free}
    log_density, derived = _in_jax(list(values.values()), [[density], list(outputs.values())])

    def point(flat: Any, at: Any) -> list[Any]:
        parts = theta.split(flat) | x.split(at)
        return [parts[name] for name in values]

    def potential(flat: Any, at: Any) -> Any:
        return -log_density(*point(flat, at))[0]

    def sites(flat: Any, at: Any) -> dict[str, Any]:
        return {name: value for name, value in zip(outputs, derived(*point(flat, at))) if name not in names}

    def parameters(flat: Any) -> dict[str, Any]:
        jnp = require("jax.numpy")
        found = dict(zip(outputs, derived(*point(flat, jnp.zeros(x.size)))))
        return {name: found[name] for name in names}

    return Program(potential, parameters, sites, theta, x, theta.join(start), x.join(start), np.dtype(np.float64))


def _in_jax(inputs: list[Any], outputs: list[list[Any]]) -> list[Any]:
    """Importing PyMC's translator switches JAX to double precision, PyMC's own."""
    translate = require("pymc.sampling.jax").get_jaxified_graph
    return [translate(inputs=inputs, outputs=group) for group in outputs]


def _start(model: Any, free: dict[str, Any], names: list[str], theta0: dict[str, Any],
           what: str = "theta0") -> dict[str, Array]:
    """Where PyMC would start, on the unconstrained scale, in the order of the model."""
    for name, value in theta0.items():
        if name not in names:
            raise ValueError(f"{what} names {name!r}, which is not in optimise")
        shape = tuple(free[name].shape.eval())
        if np.shape(value) != shape:
            raise ValueError(f"{what}[{name!r}] has shape {np.shape(value)}; the variable has {shape}")
    point = _initial_point(model, {free[name]: np.asarray(value, dtype=np.float64) for name, value in theta0.items()})
    start = {name: np.asarray(point[model.rvs_to_values[variable].name], dtype=np.float64) for name, variable in free.items()}
    for name, value in start.items():
        if not np.all(np.isfinite(value)):
            where = f"{what}[{name!r}] is {np.asarray(theta0[name])}, which is outside the support of the variable" \
                if name in theta0 else f"variable {name!r} starts at {value} on the unconstrained scale, which is not finite"
            raise ValueError(where)
    return start


def _initial_point(model: Any, overrides: dict[Any, Any]) -> dict[str, Any]:
    from pymc.initial_point import make_initial_point_fn

    with np.errstate(invalid="ignore", divide="ignore"):
        return dict(make_initial_point_fn(model=model, overrides=overrides)(0))
