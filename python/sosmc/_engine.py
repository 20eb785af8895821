"""The engine: a run whose settings are chosen, iteration by iteration."""

from __future__ import annotations

import os
from typing import Any, Callable, Iterator

import numpy as np

from ._c import ffi, lib
from ._calls import Array, Owner, Relay
from ._errors import exception, text
from ._problem import Problem
from ._progress import Progress
from ._signals import Interrupt

#: The columns of a trace, as in trace.csv; theta follows.
COLUMNS = ("iteration", "updates", "gradient_updates", "ess", "mean_score", "mean_energy", "data_energy", "penalty", "loss", "kl",
           "logz", "grad_norm", "accept", "h", "rate", "resampled", "nonfinite", "retries", "mobility", "seconds")
WHOLE_NUMBERS = ("iteration", "updates", "gradient_updates", "resampled", "nonfinite", "retries")


class Info:
    """What an iteration said of itself: the fields of a row of the trace. What does not exist is NaN."""

    iteration: int
    updates: int
    gradient_updates: int
    resampled: int
    nonfinite: int
    retries: int
    collapsed: int
    ess: float
    mean_score: float
    mean_energy: float
    data_energy: float
    penalty: float
    loss: float
    kl: float
    logz: float
    grad_norm: float
    accept: float
    h: float
    rate: float
    mobility: float
    seconds: float

    def __init__(self, info: Any) -> None:
        for name in (*COLUMNS, "collapsed"):
            setattr(self, name, getattr(info, name))

    def __repr__(self) -> str:
        return f"<sosmc.Info iteration {self.iteration}: ess {self.ess:.1f}, loss {self.loss:.6g}>"


class Engine:
    """The C engine of one problem, its callbacks, its trace, and what happens when a callable or the engine fails."""

    SECONDS = 0.1  # between two looks at Ctrl-C and progress

    def __init__(self, problem: Problem) -> None:
        self.problem, self.calls = problem, problem.calls
        self.owner = Owner(lib.sosmc_free)
        self.owner.keep = [problem, problem.job]
        self.calls.owner = self.owner
        out = ffi.new("sosmc **")
        status = lib.sosmc_create(out, problem.problem, problem.settings)
        self.owner.pointer = self.pointer = out[0]
        self._check(status)
        self.handle = ffi.new_handle(Relay(self))
        self.rows = ffi.gc(ffi.new("binding_trace *"), lib.binding_trace_clear)
        p = problem.model.dim_theta
        self.rows.dim_theta = p
        self.rows.columns = lib.BINDING_COLUMNS + (p if p <= lib.BINDING_THETAS else 1)
        self.rows.handle = self.handle
        self.interrupt: Interrupt | None = None
        self.progress: Progress | None = None
        self.callback: Callable[[Any], Any] | None = None
        self.state: Any = None
        self.total = 0

    def __del__(self) -> None:
        if hasattr(self, "calls"):
            self.calls.release()

    # ------------------------------------------------------------------ running

    def _check(self, status: int) -> None:
        if status in (lib.SOSMC_OK, lib.SOSMC_STOPPED):
            self.calls.raise_again("")
            return
        sentence = text(lib.sosmc_message(self.pointer))
        self.calls.raise_again(sentence)
        raise exception(status, sentence)

    def step(self) -> None:
        """One iteration."""
        self._check(lib.sosmc_step(self.pointer))
        lib.binding_record(self.rows, self.pointer, lib.sosmc_last(self.pointer))

    def run(self, iterations: int, interrupt: Interrupt | None, progress: Progress | None, callback: Callable[[Any], Any] | None,
            state: Any) -> bool:
        """So many iterations; False: Ctrl-C or the callback ended it before."""
        self.interrupt, self.progress, self.callback, self.state = interrupt, progress, callback, state
        self.total = self.iteration + iterations
        self.rows.every = 0.0 if callback is not None else self.SECONDS
        self.rows.next = 0.0
        try:
            status = lib.sosmc_run(self.pointer, iterations, lib.binding_observe, self.rows)
            if self.rows.no_memory:
                raise MemoryError("out of memory for the trace")
            self._check(status)
            return bool(status == lib.SOSMC_OK)
        finally:
            self.interrupt = self.progress = self.callback = self.state = None

    def see(self) -> int:
        """Called by C between iterations."""
        try:
            if self.progress is not None:
                self.progress.show(self.iteration, self.total, lib.sosmc_last(self.pointer))
            if self.callback is not None and self.callback(self.state):
                return 1
            return int(self.interrupt is not None and self.interrupt.asked)
        except BaseException as e:
            return self.calls._failed(e)

    # ------------------------------------------------------------------ values

    @property
    def iteration(self) -> int:
        return int(lib.sosmc_iteration(self.pointer))

    def info(self) -> Info:
        return Info(lib.sosmc_last(self.pointer))

    def theta(self, average: bool = False) -> Array:
        view = lib.sosmc_theta_average(self.pointer) if average else lib.sosmc_theta(self.pointer)
        return np.frombuffer(ffi.buffer(view, 8 * self.problem.model.dim_theta)).copy()

    def gradient(self) -> Array:
        return np.frombuffer(ffi.buffer(lib.sosmc_gradient(self.pointer), 8 * self.problem.model.dim_theta)).copy()

    def cloud(self) -> tuple[Array, Array]:
        """Particles (N, dim_x) and normalised log-weights; copies."""
        n, d = int(lib.sosmc_particles(self.pointer)), self.problem.model.dim_x
        x, logw = np.empty((n, d)), np.empty(n)
        self._check(lib.sosmc_cloud(self.pointer, ffi.cast("double *", x.ctypes.data), ffi.cast("double *", logw.ctypes.data)))
        return x, logw

    def hash(self) -> int:
        return int(lib.sosmc_hash(self.pointer))

    def save(self, path: str | os.PathLike[str]) -> None:
        self._check(lib.sosmc_save_file(self.pointer, os.fsencode(path)))

    def load(self, path: str | os.PathLike[str]) -> None:
        self._check(lib.sosmc_load_file(self.pointer, os.fsencode(path)))

    def why_no_loss(self) -> str:
        return text(lib.sosmc_why_no_loss(self.pointer))

    def trace(self) -> dict[str, Array]:
        return trace_arrays(self.rows, self.problem.model.names)

    # ------------------------------------------------------------------ judging

    def judge(self, interrupt: Interrupt | None) -> Any:
        """The judgement of the run as it is, as a C struct that frees itself."""
        out = ffi.gc(ffi.new("sosmc_judgement *"), lib.sosmc_judgement_free)
        options, sentence = self.problem.judge_options(), ffi.new("char[]", 1024)
        asked = _Asked(interrupt, self.calls)
        options.stop, options.stop_ctx = lib.binding_stop, asked.handle
        self.calls.owner = None  # fresh particles live in memory that comes and goes
        try:
            status = lib.sosmc_judge(self.pointer, options, out, sentence, 1024)
        finally:
            self.calls.owner = self.owner
        if status == lib.SOSMC_STOPPED:
            self.calls.raise_again("")
            return None
        if status != lib.SOSMC_OK:
            self.calls.raise_again(text(sentence))
            raise exception(status, text(sentence))
        return out


class _Asked:
    """Lets Python look at its signals while C judges; a second Ctrl-C raises here."""

    def __init__(self, interrupt: Interrupt | None, calls: Any) -> None:
        self.calls = calls
        self.handle = ffi.new_handle(self)

    def stop(self) -> int:
        return int(self.calls.error is not None)

    def _failed(self, e: BaseException) -> int:
        return int(self.calls._failed(e))


def trace_arrays(rows: Any, names: list[str]) -> dict[str, Array]:
    """The trace as arrays by the names of trace.csv."""
    n, columns = int(rows.rows), int(rows.columns)
    table = np.frombuffer(ffi.buffer(rows.row, 8 * n * columns)).reshape(n, columns) if n else np.empty((0, columns))
    out = {name: table[:, k].astype(np.int64) if name in WHOLE_NUMBERS else table[:, k].copy() for k, name in enumerate(COLUMNS)}
    thetas = columns - len(COLUMNS)
    if len(names) == thetas:
        out.update({f"theta_{k + 1}": table[:, len(COLUMNS) + k].copy() for k in range(thetas)})
    else:
        out["theta_norm"] = table[:, len(COLUMNS)].copy()
    return out


def iterations_of(engine: Engine, state: Any, iterations: int) -> Iterator[Any]:
    """Steps of an engine, one for every turn of a loop; Ctrl-C ends the loop."""
    with Interrupt() as interrupt:
        for _ in range(iterations):
            engine.step()
            yield state
            if interrupt.asked or state.stopped:
                break
