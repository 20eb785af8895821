"""Models: the law pi_theta, proportional to exp(-U_theta), as Python functions over many particles at once."""

from __future__ import annotations

from typing import Any, Callable, Mapping, Protocol, Sequence

import numpy as np

from ._calls import Array, check_type, put

#: Numbers of x that a batch of a NumPy model has: its temporary arrays then stay in a processor's cache.
BATCH_NUMBERS = 65536
#: `tile` of a model that wants all particles at once.
WHOLE = 1 << 30


class Shape:
    """theta in the user's own shape (a number, an array, a dict of names) and as a flat vector of float64."""

    def __init__(self, theta0: Any) -> None:
        self.names: list[str] | None = None
        self.scalar = False
        if isinstance(theta0, Mapping):
            self.names = [str(k) for k in theta0]
            parts = [_numbers(v, f"theta0[{k!r}]") for k, v in theta0.items()]
        else:
            parts = [_numbers(theta0, "theta0")]
            self.scalar = parts[0].ndim == 0
        self.shapes = [p.shape for p in parts]
        self.sizes = [p.size for p in parts]
        self.dim = sum(self.sizes)
        if self.dim < 1:
            raise ValueError("theta0 has no numbers; expected at least one")

    def pack(self, theta: Any) -> Array:
        """The flat vector; a copy."""
        if self.names is None:
            parts = [np.asarray(theta)]
        else:
            if not isinstance(theta, Mapping) or set(map(str, theta)) != set(self.names):
                have = ", ".join(map(str, theta)) if isinstance(theta, Mapping) else type(theta).__name__
                raise ValueError(f"theta has {have}; expected a mapping with {', '.join(self.names)}")
            parts = [np.asarray(theta[k]) for k in self.names]
        for part, shape in zip(parts, self.shapes):
            if part.shape != shape:
                raise ValueError(f"theta has shape {part.shape}; expected {shape}")
        return np.concatenate([np.asarray(p, dtype=np.float64).reshape(-1) for p in parts])

    def unpack(self, flat: Array) -> Any:
        """The user's own shape; arrays are views of `flat`."""
        if self.scalar:
            return float(flat[0])
        parts, at = [], 0
        for shape, size in zip(self.shapes, self.sizes):
            parts.append(flat[at : at + size].reshape(shape))
            at += size
        if self.names is None:
            return parts[0]
        return {k: (part if part.ndim else part[()]) for k, part in zip(self.names, parts)}

    def parameter_names(self) -> list[str]:
        if self.names is None:
            return ["theta"] if self.dim == 1 else [f"theta_{k + 1}" for k in range(self.dim)]
        out = []
        for name, size in zip(self.names, self.sizes):
            out += [name] if size == 1 else [f"{name}_{k + 1}" for k in range(size)]
        return out


def _numbers(value: Any, name: str) -> Array:
    array = np.asarray(value)
    if array.dtype.kind not in "fiu":
        raise TypeError(f"{name} is of type {array.dtype}; expected numbers")
    if not np.all(np.isfinite(array)):
        raise ValueError(f"{name} has values that are not finite")
    return array


class Scale(Protocol):
    """How a model shows what it holds on another scale: the scale of a probabilistic program, where the engine moves freely."""

    names: list[str]

    def flat(self, theta: Any) -> Array:
        """What `unpack` made, as one vector with a number for each of `names`."""

    def errors(self, flat: Array, errors: Array, covariance: Array | None) -> Any:
        """Standard errors at theta = flat, in the shape of theta."""

    def particles(self, flat: Array, x: Array) -> dict[str, Array]:
        """Particles (n, dim_x) under their names; the first axis of every array is that of x."""


class Model:
    """The law pi_theta(x), proportional to exp(-U_theta(x)), from functions over many particles at once.

    energy(theta, x) -> (U, dU_dx)
        U has one number per particle, shape (n,); dU_dx the gradient in x, shape (n, dim_x). x has shape (n, dim_x) and is a view
        of the engine's memory: read it, do not keep it, because the next call finds other numbers there. With `gradient=False`
        it returns U alone, and kernels that need dU/dx are refused.
    grad_theta(theta, x, c) -> g
        sum_i c[i] dU_theta(x_i)/dtheta, in the shape of theta. Not needed where `scores` is given.
    theta0
        Where theta starts: a number, an array of any shape, or a dict of names. Functions and results have theta in this shape.
    dim_x
        The number of coordinates of a particle.

    Optional:

    value(theta, x) -> U
        U alone, where that is cheaper than `energy`.
    energy_into(theta, x, U, dU_dx), grad_theta_into(theta, x, c, g)
        The same in place: fill U and dU_dx (which is None where only U is wanted); add to g, a flat vector.
    scores(theta, x) -> D
        dU/dtheta of every particle, shape (n, p) with p numbers of theta. `sosmc.minimize(model, objective)` asks for it all the
        time; without it every particle costs a call of `grad_theta`.
    prox(theta, x, width) -> p
        The proximal map of width times the non-smooth part of U, shape (n, dim_x), for the kernels "myula" and "mymala".
    x_low, x_high
        Bounds of x: a number, or one per coordinate, -inf and inf for none. Coordinates with bounds are transformed by log or logit,
        with the Jacobian in U; functions, starts and results have x. Not with `prox`.
    tile
        Particles per call; None: so many that a call sees some 65,536 numbers. `sosmc.WHOLE` asks for all particles at once.
    rounding
        The relative rounding error of U where it is not that of float64: 1e-7 for single precision.
    rows
        The number of observations behind a marginal likelihood, for BIC.
    name, names
        What the model and the numbers of theta are called in reports.
    log_z
        False, or a sentence: exp(-U) need not have a finite integral, so nothing that depends on it is told.
    init
        Where the particles start unless the call says otherwise: an array, a `sosmc.Law`, or a run-file value such as
        {"type": "normal", "sd": 2}.

    For frameworks that differentiate by themselves:

    pack, unpack
        theta0's own type to and from a flat float64 vector; `flat_theta=True` hands the flat vector to the functions.
    shares_forward
        `energy` returns (U, dU_dx, kept), and `grad_theta(theta, x, c, kept)` gets `kept` back where neither theta nor x has
        changed since, else None: the forward pass is then done once.
    writable_views
        x and theta are not marked as read-only (DLPack refuses arrays that are).
    unpack_x
        Particles (n, dim_x) as a dict of names, each an array (n, ...): what `to_arviz` shows.
    machine_code
        The functions do not hold Python's lock, so `threads` may be more than 1.

    >>> import numpy as np, sosmc
    >>> y = np.array([1.0, -2.0])
    >>> def energy(theta, x):
    ...     p, q = x - theta, x - y
    ...     return 0.5 * (p * p + q * q).sum(1), p + q
    >>> def grad_theta(theta, x, c):
    ...     return c.sum() * theta - c @ x
    >>> model = sosmc.Model(energy, grad_theta, theta0=np.zeros(2), dim_x=2)
    >>> r = sosmc.minimize(model, sosmc.mmle(), kernel="mala", iterations=300, seed=1)
    >>> bool(np.all(np.abs(r.theta - y) < 0.2))
    True
    """

    def __init__(
        self,
        energy: Callable[..., Any] | None = None,
        grad_theta: Callable[..., Any] | None = None,
        theta0: Any = None,
        dim_x: int = 0,
        *,
        value: Callable[..., Any] | None = None,
        energy_into: Callable[..., None] | None = None,
        grad_theta_into: Callable[..., None] | None = None,
        scores: Callable[..., Any] | None = None,
        prox: Callable[..., Any] | None = None,
        x_low: Any = None,
        x_high: Any = None,
        gradient: bool = True,
        tile: int | None = None,
        rounding: float = 0.0,
        rows: int = 0,
        name: str = "model",
        names: Sequence[str] | None = None,
        log_z: bool | str = True,
        init: Any = None,
        pack: Callable[[Any], Array] | None = None,
        unpack: Callable[[Array], Any] | None = None,
        flat_theta: bool = False,
        shares_forward: bool = False,
        writable_views: bool = False,
        machine_code: bool = False,
        unpack_x: Callable[[Array], Mapping[str, Any]] | None = None,
    ) -> None:
        if energy is None and energy_into is None:
            raise TypeError("a model needs energy(theta, x) or energy_into(theta, x, U, dU_dx)")
        if grad_theta is None and grad_theta_into is None and scores is None:
            raise TypeError("a model needs grad_theta(theta, x, c), grad_theta_into(theta, x, c, g) or scores(theta, x)")
        for argument, function in [("energy", energy), ("grad_theta", grad_theta), ("energy_into", energy_into),
                                   ("grad_theta_into", grad_theta_into), ("scores", scores), ("value", value), ("prox", prox)]:
            if function is not None and not callable(function):
                raise TypeError(f"{argument} is {type(function).__name__}; expected a function")
        if theta0 is None:
            raise TypeError("a model needs theta0, where theta starts")
        if isinstance(dim_x, bool) or not isinstance(dim_x, (int, np.integer)) or dim_x < 1:
            raise ValueError(f"dim_x is {dim_x!r}; expected the number of coordinates of a particle, at least 1")
        if not rounding >= 0:
            raise ValueError(f"rounding is {rounding!r}; expected 0 (that of float64) or more, such as 1e-7")
        self.energy, self.grad_theta, self.value = energy, grad_theta, value
        self.energy_into, self.grad_theta_into, self.scores, self.prox = energy_into, grad_theta_into, scores, prox
        self.gradient, self.rounding, self.rows, self.name = gradient, float(rounding), int(rows), name
        self.log_z, self.init = log_z, init
        #: Of a built-in model, its keys in a run file; empty: it is made of Python functions.
        self.keys: dict[str, Any] = {}
        self.shares_forward, self.writable_views, self.machine_code = shares_forward, writable_views, machine_code
        self.unpack_x = unpack_x
        self.scale: Scale | None = None
        self.dim_x = int(dim_x)
        #: The bounds of x as keys of a run file.
        self.bounds = {k: self._bounds(v, k) for k, v in [("x_low", x_low), ("x_high", x_high)] if v is not None}
        if self.bounds and prox is not None:
            raise ValueError(f"the model has a proximal map and {' and '.join(self.bounds)}, which do not go together")
        self._take_theta(theta0, pack, unpack, flat_theta)
        self.tile = self._tile(tile)
        self.names = list(names) if names is not None else self._shape_names()
        if len(self.names) != self.dim_theta:
            raise ValueError(f"names has {len(self.names)} names; expected {self.dim_theta}, one for each number of theta")

    def _take_theta(self, theta0: Any, pack: Callable[[Any], Array] | None, unpack: Callable[[Array], Any] | None, flat: bool) -> None:
        if (pack is None) != (unpack is None):
            raise TypeError("pack and unpack come together: theta0's own type to and from a flat vector")
        self.shape = None if pack is not None else Shape(theta0)
        self._pack = pack or self.shape.pack  # type: ignore[union-attr]
        self._unpack = unpack or self.shape.unpack  # type: ignore[union-attr]
        self.flat_theta = flat
        #: The arrays that functions get as theta are views, made once.
        self.theta_views = flat or (self.shape is not None and not self.shape.scalar and () not in self.shape.shapes)
        self.theta0 = np.array(self._pack(theta0), dtype=np.float64).reshape(-1)
        if not np.all(np.isfinite(self.theta0)):
            raise ValueError("theta0 has values that are not finite")
        self.dim_theta = int(self.theta0.size)

    def _bounds(self, value: Any, name: str) -> list[float]:
        array = np.asarray(value)
        if array.dtype.kind not in "fiu" or array.shape not in ((), (self.dim_x,)):
            raise ValueError(f"{name} is {value!r}; expected a number, or {self.dim_x} of them, one per coordinate")
        return np.full(self.dim_x, array, dtype=np.float64).tolist()

    def _tile(self, tile: int | None) -> int:
        if tile is None:
            return max(8, -(-BATCH_NUMBERS // self.dim_x) + 7 & ~7)
        if tile < 1:
            raise ValueError(f"tile is {tile}; expected the number of particles per call, at least 1")
        return min(int(tile), WHOLE)

    def _shape_names(self) -> list[str]:
        if self.shape is not None:
            return self.shape.parameter_names()
        return ["theta"] if self.dim_theta == 1 else [f"theta_{k + 1}" for k in range(self.dim_theta)]

    def pack(self, theta: Any) -> Array:
        """theta as a flat vector of float64."""
        return np.asarray(self._pack(theta), dtype=np.float64).reshape(-1)

    def unpack(self, flat: Array) -> Any:
        """A flat vector in the shape of theta0."""
        return self._unpack(np.array(flat, dtype=np.float64))

    def view_theta(self, flat: Array) -> Any:
        """What the functions get as theta."""
        return flat if self.flat_theta else self._unpack(flat)

    def put(self, to: Array, value: Any, function: str, what: str) -> None:
        """Copies what a function returned, after its shape and type were looked at."""
        put(to, value, function, what, self.rounding > 0)

    def add(self, to: Array, value: Any) -> None:
        """Adds a gradient in the shape of theta, or flat, to a flat vector."""
        if self.shape is not None and self.shape.names is None:
            array = np.asarray(value)
            if array.shape != self.shape.shapes[0] and array.shape != to.shape:
                raise ValueError(f"grad_theta returned a gradient of shape {array.shape}; expected {self.shape.shapes[0]}, that of theta")
            check_type(array, "grad_theta", "a gradient", self.rounding > 0)
            to += array.reshape(-1)
            return
        if isinstance(value, np.ndarray) and value.shape == to.shape:
            to += value
            return
        flat = self.pack(value)
        if flat.shape != to.shape:
            raise ValueError(f"grad_theta returned {flat.size} numbers; expected {to.size}, as theta has")
        to += flat

    def table(self, value: Any, n: int) -> Array:
        """The scores of n particles, looked at."""
        array = np.asarray(value)
        if array.shape != (n, self.dim_theta):
            raise ValueError(f"scores returned an array of shape {array.shape}; expected {(n, self.dim_theta)}")
        check_type(array, "scores", "an array", self.rounding > 0)
        return array

    def __repr__(self) -> str:
        return f"<sosmc.Model {self.name!r}: {self.dim_x} coordinates, {self.dim_theta} parameters>"


class Law:
    """Where particles come from: an initial law or a reference, as functions.

    draw(rng, n) -> x
        n independent points, shape (n, dim_x), by the numpy.random.Generator `rng`, which is named by seed and step, so that a run
        with the same seed draws the same.
    logpdf(x) -> lq
        Their normalised log density. A weighted run needs it for an initial law, unless `exact`.
    exact
        The draws follow pi_theta0 exactly: log Z is then told relative to theta0.
    """

    def __init__(self, draw: Callable[[np.random.Generator, int], Any], logpdf: Callable[[Array], Any] | None = None, *,
                 exact: bool = False) -> None:
        if not callable(draw) or (logpdf is not None and not callable(logpdf)):
            raise TypeError("a Law needs a function draw(rng, n), and logpdf(x) if anything")
        self.draw, self.logpdf, self.exact = draw, logpdf, exact
