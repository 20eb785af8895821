"""Marginal likelihoods of NumPyro programs: ``sosmc.from_numpyro``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from ._calls import Array
from ._extras import require
from ._programs import Layout, Program, ProgramModel, check_prior, chosen


def from_numpyro(model: Callable[..., Any], args: Iterable[Any] = (), kwargs: Mapping[str, Any] | None = None, *,
                 optimise: Iterable[str] | str, prior: str = "drop", theta0: Mapping[str, Any] | None = None,
                 share: bool = True, **options: Any) -> ProgramModel:
    """The marginal likelihood of a NumPyro program as a model for ``sosmc.minimize``.

    The sites named in `optimise` (``numpyro.sample`` or ``numpyro.param``) are the parameters theta; all other latent sites are
    integrated over by particles, on the unconstrained scale with the Jacobians that belong to it.  Data are whatever `args` and
    `kwargs` make observed.

    model, args, kwargs
        The program and what it is called with.
    optimise
        Names of the parameters.  Results are dicts of these names, on the scale of the program.
    prior
        "drop": the parameters' own priors do not count, and the result is the maximum of the marginal likelihood.
        "keep": they do, and the result is the mode of the marginal posterior of the parameters.
    theta0
        Where to start, by name, on the scale of the program; what is missing starts at the median of its prior.

    The precision is NumPyro's own: ``numpyro.enable_x64()`` before makes it double, which is what likelihoods of many rows need.

    >>> model = sosmc.from_numpyro(schools, (y, sigma), optimise=["mu", "tau"])          # doctest: +SKIP
    >>> sosmc.minimize(model).theta                                                      # doctest: +SKIP
    {'mu': array(8.02), 'tau': array(19.76)}
    """
    args, kwargs = tuple(args), dict(kwargs or {})
    keep = check_prior(prior)
    sites = _sites(model, args, kwargs)
    latent = [name for name, site in sites.items() if _is_latent(site)]
    names = chosen(optimise, latent, "latent site")
    _refuse(sites, names)
    program = _program(model, args, kwargs, sites, names, keep, dict(theta0 or {}))
    options = {"rows": _rows(sites)} | options
    return ProgramModel(program, getattr(model, "__name__", "numpyro"), share=share, options=options,
                        inverse=lambda theta: _flat(theta, sites, names))


def _sites(model: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """One run of the program, by site."""
    require("numpyro")
    if not callable(model):
        raise TypeError(f"model is {type(model).__name__}; it must be a NumPyro program, a function")
    handlers = require("numpyro.handlers")
    return dict(handlers.trace(handlers.seed(model, _key())).get_trace(*args, **kwargs))


def _key() -> Any:
    return require("jax").random.PRNGKey(0)


def _is_latent(site: dict[str, Any]) -> bool:
    return site["type"] == "param" or (site["type"] == "sample" and not site["is_observed"])


def _refuse(sites: dict[str, Any], names: list[str]) -> None:
    for name, site in sites.items():
        if site["type"] == "prng_key":
            raise ValueError(f"site {name!r} draws random numbers of its own; the density of the model must be the same in every call")
        if site["type"] == "plate" and site["args"][1] not in (None, site["args"][0]):
            size, part = site["args"][:2]
            raise ValueError(f"plate {name!r} is subsampled ({part} of {size} rows); particles need the whole density: "
                             "leave subsample_size away")
        if site["type"] == "param" and name not in names:
            raise ValueError(f"site {name!r} is a numpyro.param and is not optimised; name it in optimise")
        if site["type"] == "sample" and not site["is_observed"] and site["fn"].is_discrete:
            raise ValueError(f"site {name!r} is discrete ({type(site['fn']).__name__}); particles are continuous: "
                             "sum it out in the model, or observe it")


def _program(model: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], sites: dict[str, Any], names: list[str],
             keep: bool, theta0: dict[str, Any]) -> Program:
    handlers, util = require("numpyro.handlers"), require("numpyro.infer.util")
    maps = {name: _to_own_scale(sites[name]) for name in names}
    start = _start(model, args, kwargs, sites)
    for name, value in theta0.items():
        if name not in names:
            raise ValueError(f"theta0 names {name!r}, which is not in optimise")
        start[name] = _unconstrain(name, maps[name], value, sites[name], "theta0")
    theta = Layout({name: np.shape(start[name]) for name in names})
    x = Layout({name: np.shape(value) for name, value in start.items() if name not in names})

    def parameters(flat: Any) -> dict[str, Any]:
        return {name: maps[name](value) for name, value in theta.split(flat).items()}

    def at(flat: Any) -> Any:
        return handlers.substitute(model, data=parameters(flat))

    def potential(flat: Any, point: Any) -> Any:
        program = at(flat) if keep else handlers.block(at(flat), hide=names)
        return util.potential_energy(program, args, kwargs, x.split(point))

    def derived(flat: Any, point: Any) -> dict[str, Any]:
        return dict(util.constrain_fn(at(flat), args, kwargs, x.split(point), return_deterministic=True))

    precision = np.dtype(require("jax.numpy").result_type(float))
    return Program(potential, parameters, derived, theta, x, theta.join(start), x.join(start), precision)


def _rows(sites: dict[str, Any]) -> int:
    """Observed numbers, for BIC."""
    return sum(int(np.size(site["value"])) for site in sites.values()
               if site["type"] == "sample" and site["is_observed"] and type(site["fn"]).__name__ != "Unit")


def _flat(theta: Mapping[str, Any], sites: dict[str, Any], names: list[str]) -> Array:
    if set(theta) != set(names):
        raise ValueError(f"theta has {', '.join(map(repr, theta))}; expected {', '.join(map(repr, names))}")
    parts = [_unconstrain(name, _to_own_scale(sites[name]), theta[name], sites[name]) for name in names]
    return np.concatenate([np.ravel(np.asarray(part, dtype=np.float64)) for part in parts])


def _support(site: dict[str, Any]) -> Any:
    real = require("numpyro.distributions").constraints.real
    return site["kwargs"].get("constraint", real) if site["type"] == "param" else site["fn"].support


def _to_own_scale(site: dict[str, Any]) -> Any:
    return require("numpyro.distributions.transforms").biject_to(_support(site))


def _unconstrain(name: str, transform: Any, value: Any, site: dict[str, Any], what: str = "theta") -> Any:
    jnp = require("jax.numpy")
    value = jnp.asarray(value, dtype=jnp.result_type(float))
    if value.shape != jnp.shape(site["value"]):
        raise ValueError(f"{what}[{name!r}] has shape {value.shape}; the site has {jnp.shape(site['value'])}")
    if not bool(jnp.all(_support(site)(value))):
        raise ValueError(f"{what}[{name!r}] is {np.asarray(value)}, which is outside the support of the site")
    return transform.inv(value)


def _start(model: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], sites: dict[str, Any]) -> dict[str, Any]:
    """Medians of the priors on the unconstrained scale, in the order of the program; a numpyro.param at its own start."""
    infer = require("numpyro.infer")
    util = require("numpyro.infer.util")
    handlers = require("numpyro.handlers")
    fixed = {name: site["value"] for name, site in sites.items() if site["type"] == "param"}
    program = handlers.substitute(model, data=fixed) if fixed else model
    info = util.initialize_model(_key(), program, init_strategy=infer.init_to_median(num_samples=101), model_args=args,
                                 model_kwargs=kwargs).param_info
    free = dict(info.z) | {name: _to_own_scale(sites[name]).inv(value) for name, value in fixed.items()}
    return {name: free[name] for name, site in sites.items() if _is_latent(site)}
