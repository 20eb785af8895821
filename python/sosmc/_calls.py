"""How the engine calls Python: the functions behind the C callbacks, and arrays over the engine's memory.

The engine hands over addresses. Where its memory stays where it is for the engine's whole life, an array is made once for every
address and looked up afterwards, without a copy; each such array holds the engine, so that memory is never freed under an array
that somebody kept. Elsewhere (the solver, the judgement, checks) memory comes and goes, so the numbers are copied into arrays that
belong to Python, and the results copied back.

An exception of a callable is kept here, and the engine told to stop; whoever called the engine raises it again.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Callable, TypeVar

import numpy as np

from ._c import ffi

if TYPE_CHECKING:
    from .model import Model

Array = np.ndarray[Any, np.dtype[Any]]


class Owner:
    """The C object behind an engine or a solver; freed when neither that nor any array over its memory is left."""

    def __init__(self, free: Callable[[Any], None]) -> None:
        self.pointer: Any = ffi.NULL
        self.keep: list[Any] = []
        self._free = free

    def __del__(self) -> None:
        if self.pointer != ffi.NULL:
            self._free(self.pointer)
            self.pointer = ffi.NULL


class _Memory:
    """An address that NumPy can look at; NumPy keeps it, and it keeps the owner."""

    __slots__ = ("__array_interface__", "owner")

    def __init__(self, address: int, shape: tuple[int, ...], strides: tuple[int, ...], readonly: bool, owner: object) -> None:
        self.owner = owner
        self.__array_interface__ = {"data": (address, readonly), "shape": shape, "strides": strides, "typestr": "<f8", "version": 3}


def array_at(address: int, shape: tuple[int, ...], strides: tuple[int, ...], readonly: bool, owner: object) -> Array:
    """An array over memory that belongs to `owner`."""
    return np.asarray(_Memory(address, shape, strides, readonly, owner))


class _Frame:
    """The arrays of one batch: x (n, d), U (n), gx (n, d), c (n), g (p), D (n, p) and theta (p)."""

    __slots__ = ("theta", "x", "U", "gx", "c", "g", "D", "given", "base")

    theta: Array
    given: Any
    x: Array
    U: Array
    gx: Array | None
    c: Array
    g: Array
    D: Array
    base: dict[str, Array]


class Calls:
    """What one engine, solver or check calls: a model and a reward written in Python."""

    MOST_FRAMES = 4096  # more batches than this are not remembered

    def __init__(self, model: Model | None, reward: Callable[[Array], Any] | None, dim_x: int, passes: int = 2) -> None:
        self.model = model
        self.reward_function = reward
        self.dim_x = dim_x
        self.error: BaseException | None = None
        self.owner: Owner | None = None  # not None: addresses stay, and arrays are made over them
        self.frames: dict[tuple[int, ...], _Frame] = {}
        self.own: dict[tuple[int, int, int], _Frame] = {}
        self.passes = passes
        self.kept: OrderedDict[int, Any] = OrderedDict()
        self.handle = ffi.new_handle(self)

    # ------------------------------------------------------------------ arrays

    def _rows(self, address: int, rows: int, n: int, ld: int, readonly: bool) -> Array:
        return array_at(address, (n, rows), (8, 8 * ld), readonly, self.owner)

    def _flat(self, address: int, n: int, readonly: bool) -> Array:
        return array_at(address, (n,), (8,), readonly, self.owner)

    def _readonly(self) -> bool:
        return self.model is None or not self.model.writable_views

    def _new_frame(self, theta: int, x: int, n: int, ld: int) -> _Frame:
        frame = _Frame()
        if theta and self.model is not None:
            frame.theta = self._flat(theta, self.model.dim_theta, self._readonly())
            frame.given = self.model.view_theta(frame.theta)
        frame.x = self._rows(x, self.dim_x, n, ld, self._readonly())
        if len(self.frames) >= self.MOST_FRAMES:
            self.frames.clear()
        return frame

    def _own_frame(self, theta: int, x: int, n: int, ld: int) -> _Frame:
        """Arrays that belong to Python and to the calling thread, with theta and x copied into them."""
        key = (threading.get_ident(), n, ld)
        frame = self.own.get(key)
        p = self.model.dim_theta if self.model is not None else 0
        if frame is None:
            frame = _Frame()
            width = {"x": self.dim_x * ld, "gx": self.dim_x * ld, "U": ld, "c": ld, "g": p, "theta": p}
            frame.base = {name: np.zeros(size) for name, size in width.items()}
            frame.x = frame.base["x"].reshape(self.dim_x, ld)[:, :n].T
            frame.gx = frame.base["gx"].reshape(self.dim_x, ld)[:, :n].T
            frame.U, frame.c = frame.base["U"][:n], frame.base["c"][:n]
            frame.g, frame.theta = frame.base["g"], frame.base["theta"]
            if self._readonly():
                frame.x.flags.writeable = False
            if self.model is not None:
                frame.given = self.model.view_theta(frame.theta)
            if len(self.own) >= 64:
                self.own.clear()
            self.own[key] = frame
        _move_in(frame.base["x"], x)
        if theta:
            _move_in(frame.base["theta"], theta)
        return frame

    # ------------------------------------------------------------------ models

    def energy(self, theta: int, x: int, n: int, ld: int, U: int, gx: int, number: int) -> int:
        try:
            model = self.model
            assert model is not None
            if self.owner is None:
                frame = self._own_frame(theta, x, n, ld)
                self._evaluate(model, frame, frame.gx if gx else None, n, number)
                _move_out(U, frame.base["U"], n)
                if gx:
                    _move_out(gx, frame.base["gx"])
                return 0
            key = (theta, x, n, U, gx)
            found = self.frames.get(key)
            if found is None:
                found = self._new_frame(theta, x, n, ld)
                found.U = self._flat(U, n, False)
                found.gx = self._rows(gx, self.dim_x, n, ld, False) if gx else None
                self.frames[key] = found
            self._evaluate(model, found, found.gx, n, number)
            return 0
        except BaseException as e:
            return self._failed(e)

    def _evaluate(self, model: Model, frame: _Frame, gx: Array | None, n: int, number: int) -> None:
        theta = frame.given if model.theta_views else model.view_theta(frame.theta)
        if model.energy_into is not None:
            model.energy_into(theta, frame.x, frame.U, gx)
            return
        if gx is None and model.value is not None:
            model.put(frame.U, model.value(theta, frame.x), "value", "U")
            return
        assert model.energy is not None
        out = model.energy(theta, frame.x)
        if not isinstance(out, tuple):
            if gx is not None:
                raise TypeError(
                    "energy returned U alone, and dU/dx is needed here: return (U, dU_dx), or say Model(..., gradient=False) "
                    'and take a kernel without gradients such as "rwm"'
                )
            model.put(frame.U, out, "energy", "U")
            return
        model.put(frame.U, out[0], "energy", "U")
        if gx is not None:
            model.put(gx, out[1], "energy", "dU/dx")
            if model.shares_forward and len(out) > 2 and number:
                self.kept[number] = out[2]
                while len(self.kept) > self.passes:
                    self.kept.popitem(last=False)

    def grad_theta(self, theta: int, x: int, n: int, ld: int, c: int, g: int, number: int) -> int:
        try:
            model = self.model
            assert model is not None
            if self.owner is None:
                frame = self._own_frame(theta, x, n, ld)
                _move_in(frame.base["c"][:n], c)
                _move_in(frame.base["g"], g)
                self._contract(model, frame, number)
                _move_out(g, frame.base["g"])
                return 0
            key = (theta, x, n, c, g)
            found = self.frames.get(key)
            if found is None:
                found = self._new_frame(theta, x, n, ld)
                found.c = self._flat(c, n, self._readonly())
                found.g = self._flat(g, model.dim_theta, False)
                self.frames[key] = found
            self._contract(model, found, number)
            return 0
        except BaseException as e:
            return self._failed(e)

    def _contract(self, model: Model, frame: _Frame, number: int) -> None:
        theta = frame.given if model.theta_views else model.view_theta(frame.theta)
        if model.grad_theta_into is not None:
            model.grad_theta_into(theta, frame.x, frame.c, frame.g)
        elif model.grad_theta is None:
            assert model.scores is not None
            frame.g += frame.c @ model.table(model.scores(theta, frame.x), len(frame.c))
        elif model.shares_forward:
            model.add(frame.g, model.grad_theta(theta, frame.x, frame.c, self.kept.get(number)))
        else:
            model.add(frame.g, model.grad_theta(theta, frame.x, frame.c))

    def scores(self, theta: int, x: int, n: int, ld: int, D: int, number: int) -> int:
        try:
            model = self.model
            assert model is not None and model.scores is not None
            frame = self._own_frame(theta, x, n, ld)
            table = model.table(model.scores(model.view_theta(frame.theta), frame.x), n)
            out = np.zeros((model.dim_theta, ld))
            out[:, :n] = table.T
            _move_out(D, out)
            return 0
        except BaseException as e:
            return self._failed(e)

    def prox(self, theta: int, width: float, x: int, n: int, ld: int, p: int) -> int:
        try:
            model = self.model
            assert model is not None and model.prox is not None
            frame = self._own_frame(theta, x, n, ld)
            assert frame.gx is not None
            model.put(frame.gx, model.prox(model.view_theta(frame.theta), frame.x, width), "prox", "the points")
            _move_out(p, frame.base["gx"])
            return 0
        except BaseException as e:
            return self._failed(e)

    def reward(self, x: int, n: int, ld: int, s: int) -> int:
        try:
            assert self.reward_function is not None
            frame = self._own_frame(0, x, n, ld)
            put(frame.U, self.reward_function(frame.x), "reward", "R", True)
            _move_out(s, frame.base["U"], n)
            return 0
        except BaseException as e:
            return self._failed(e)

    # ------------------------------------------------------------------ errors

    def _failed(self, e: BaseException) -> int:
        if self.error is None:
            self.error = e
        return 1

    def raise_again(self, sentence: str) -> None:
        """Raises the exception that a callable left, with the engine's sentence as a note; nothing where there is none."""
        error, self.error = self.error, None
        if error is not None:
            if sentence and not isinstance(error, KeyboardInterrupt):
                error.add_note(f"sosmc: {sentence}")
            try:
                raise error
            finally:
                del error  # its traceback holds this frame, and with it the engine until the next collection

    def release(self) -> None:
        """Lets go of all arrays over the engine's memory."""
        self.frames.clear()
        self.own.clear()
        self.kept.clear()
        self.owner = None


def _move_in(to: Array, address: int) -> None:
    ffi.memmove(ffi.cast("char *", to.ctypes.data), ffi.cast("char *", address), to.nbytes)


def _move_out(address: int, source: Array, n: int | None = None) -> None:
    ffi.memmove(ffi.cast("char *", address), ffi.cast("char *", source.ctypes.data), source.nbytes if n is None else 8 * n)


_FLOAT64 = np.dtype(np.float64)


def put(to: Array, value: Any, function: str, what: str, single: bool) -> None:
    """Copies what a callable returned, after its shape and type were looked at."""
    value = np.asarray(value)
    if value.shape != to.shape:
        raise ValueError(f"{function} returned {what} of shape {value.shape}; expected {to.shape}")
    if value.dtype is not _FLOAT64:
        check_type(value, function, what, single)
    to[...] = value


def check_type(value: Array, function: str, what: str, single: bool) -> None:
    kind = value.dtype.kind
    if kind not in "fiub":
        raise TypeError(f"{function} returned {what} of type {value.dtype}; expected float64")
    if kind == "f" and value.dtype.itemsize < 8 and not single:
        raise TypeError(
            f"{function} returned {what} of type {value.dtype}; expected float64, or Model(..., rounding=1e-7) for a model that "
            "computes in single precision"
        )


class Relay:
    """What C calls between iterations; it does not keep the engine that it calls."""

    def __init__(self, target: Any) -> None:
        self._target = weakref.ref(target)

    def see(self) -> int:
        target = self._target()
        return target.see() if target is not None else 1

    def see_solver(self, info: Any) -> int:
        target = self._target()
        return target.see_solver(info) if target is not None else 1

    def _failed(self, e: BaseException) -> int:
        target = self._target()
        return int(target.calls._failed(e)) if target is not None else 1


class SourceCalls:
    """A law given by Python functions: draw(rng, n) -> (n, d), and, optionally, logpdf(x) -> (n)."""

    def __init__(self, name: str, dim: int, draw: Callable[[np.random.Generator, int], Any], logpdf: Callable[[Array], Any] | None) -> None:
        self.name, self.dim, self.draw_function, self.logpdf_function = name, dim, draw, logpdf
        self.error_to: Calls | None = None
        self.handle = ffi.new_handle(self)

    def draw(self, rng: Any, x: int, n: int, ld: int, first: int) -> int:
        try:
            who = (int(rng.stream) << 8) | int(rng.retry)
            bits = np.random.Philox(key=[int(rng.seed), who], counter=[0, 0, first, int(rng.step)])
            points = np.zeros((n, self.dim))
            put(points, self.draw_function(np.random.Generator(bits), n), self.name, "the points", True)
            out = np.zeros((self.dim, ld))
            out[:, :n] = points.T
            _move_out(x, out)
            return 0
        except BaseException as e:
            return self._failed(e)

    def logpdf(self, x: int, n: int, ld: int, lq: int) -> int:
        try:
            assert self.logpdf_function is not None
            buffer, values = np.zeros((self.dim, ld)), np.zeros(n)
            _move_in(buffer, x)
            put(values, self.logpdf_function(buffer[:, :n].T), self.name, "the log density", True)
            _move_out(lq, values)
            return 0
        except BaseException as e:
            return self._failed(e)

    def _failed(self, e: BaseException) -> int:
        return self.error_to._failed(e) if self.error_to is not None else 1


# ---------------------------------------------------------------------------- what C calls

_of = ffi.from_handle
_Function = TypeVar("_Function", bound=Callable[..., Any])


def _left(kind: Any, error: BaseException, traceback: Any) -> None:
    """Keeps an exception that arose outside of the `try` of a callable, such as that of a signal handler, where `raise_again` finds it."""
    while traceback is not None:
        handle = traceback.tb_frame.f_locals.get("self")
        if isinstance(handle, ffi.CData):
            _of(handle)._failed(error)
            return
        traceback = traceback.tb_next
    raise error


def _extern(f: _Function) -> _Function:
    """The body of the C function of this name, which returns 1 where Python fails."""
    ffi.def_extern(error=1, onerror=_left)(f)
    return f


def _extern_void(f: _Function) -> _Function:
    ffi.def_extern(onerror=_left)(f)
    return f


@_extern
def sosmc_py_energy(self: Any, theta: int, x: int, n: int, ld: int, U: int, gx: int, number: int) -> int:
    return int(_of(self).energy(theta, x, n, ld, U, gx, number))


@_extern
def sosmc_py_grad_theta(self: Any, theta: int, x: int, n: int, ld: int, c: int, g: int, number: int) -> int:
    return int(_of(self).grad_theta(theta, x, n, ld, c, g, number))


@_extern
def sosmc_py_scores(self: Any, theta: int, x: int, n: int, ld: int, D: int, number: int) -> int:
    return int(_of(self).scores(theta, x, n, ld, D, number))


@_extern
def sosmc_py_prox(self: Any, theta: int, width: float, x: int, n: int, ld: int, p: int) -> int:
    return int(_of(self).prox(theta, width, x, n, ld, p))


@_extern
def sosmc_py_reward(self: Any, x: int, n: int, ld: int, s: int) -> int:
    return int(_of(self).reward(x, n, ld, s))


@_extern
def sosmc_py_draw(self: Any, rng: int, batch: int, x: int, n: int, ld: int, first: int) -> int:
    return int(_of(self).draw(ffi.cast("sosmc_rng *", rng), x, n, ld, first))


@_extern
def sosmc_py_logpdf(self: Any, x: int, n: int, ld: int, lq: int) -> int:
    return int(_of(self).logpdf(x, n, ld, lq))


@_extern
def sosmc_py_see(self: Any) -> int:
    return int(_of(self).see())


@_extern
def sosmc_py_see_solver(self: Any, info: int) -> int:
    return int(_of(self).see_solver(ffi.cast("sosmc_solve_info *", info)))


@_extern
def sosmc_py_stop(self: Any) -> int:
    return int(_of(self).stop())


@_extern_void
def sosmc_py_progress(self: Any, p: Any) -> None:
    _of(self).show(p)


@_extern_void
def sosmc_py_log(self: Any, sentence: Any) -> None:
    _of(self).log(ffi.string(sentence).decode("utf-8", "replace"))

