"""The solver: an answer from a model and an objective alone."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np

from ._c import ffi, lib
from ._calls import Array, Owner, Relay
from ._errors import exception, text
from ._problem import Problem
from ._progress import Progress
from ._signals import Interrupt

#: The columns of a trace of the solver, as in trace.csv; theta follows.
COLUMNS = ("step", "phase", "updates", "temperature", "stage", "round", "gain", "decrease", "left", "left_error", "wanted", "loss",
           "loss_error", "ess", "mean_score", "accept", "mobility", "moves", "evaluations", "contractions")
WHOLE_NUMBERS = ("step", "phase", "updates", "stage", "round", "moves", "evaluations", "contractions")


class Solver:
    """The C solver of one problem."""

    def __init__(self, problem: Problem, interrupt: Interrupt | None, progress: Progress | None,
                 callback: Callable[[Any], Any] | None) -> None:
        self.problem, self.calls = problem, problem.calls
        self.interrupt, self.progress, self.callback = interrupt, progress, callback
        self.rows: list[tuple[float, ...]] = []
        self.handle = ffi.new_handle(Relay(self))
        options = problem.solve_options()
        options.see, options.see_ctx = lib.binding_observe_solver, self.handle
        self.owner = Owner(lib.sosmc_solver_free)
        self.owner.keep = [problem, problem.job]
        out = ffi.new("sosmc_solver **")
        status = lib.sosmc_solver_create(out, problem.problem, options)
        self.owner.pointer = self.pointer = out[0]
        if status == lib.SOSMC_EINVAL and self.calls.error is None:
            raise exception(status, f"the solver refuses this problem: {text(lib.sosmc_solver_message(self.pointer))}; a keyword such as "
                                    'kernel="mala" makes it an explicit run')
        self._check(status)

    def _check(self, status: int) -> None:
        if status in (lib.SOSMC_OK, lib.SOSMC_STOPPED):
            self.calls.raise_again("")
            return
        sentence = text(lib.sosmc_solver_message(self.pointer))
        self.calls.raise_again(sentence)
        raise exception(status, sentence)

    def run(self) -> bool:
        """Until it is done, a limit is reached, or Ctrl-C or the callback ends it (False)."""
        status = lib.sosmc_solver_run(self.pointer)
        if status == lib.SOSMC_ENUMERIC and self.calls.error is None:
            return True  # the verdict says what happened
        self._check(status)
        return bool(status == lib.SOSMC_OK)

    def see_solver(self, info: Any) -> int:
        """Called by C between steps."""
        try:
            self.rows.append(tuple(info.reward if name == "mean_score" else getattr(info, name) for name in COLUMNS)
                             + tuple(self.theta() if self.problem.model.dim_theta <= lib.BINDING_THETAS else []))
            if self.progress is not None:
                self.progress.show_solver(info, text(lib.sosmc_phase_name(info.phase)))
            if self.callback is not None and self.callback(self):
                return 1
            return int(self.interrupt is not None and self.interrupt.asked)
        except BaseException as e:
            return self.calls._failed(e)

    def theta(self) -> Array:
        return np.frombuffer(ffi.buffer(lib.sosmc_solver_theta(self.pointer), 8 * self.problem.model.dim_theta)).copy()

    def cloud(self) -> tuple[Array, Array] | None:
        n, d = int(lib.sosmc_solver_particles(self.pointer)), self.problem.model.dim_x
        x, logw = np.empty((n, d)), np.empty(n)
        status = lib.sosmc_solver_cloud(self.pointer, ffi.cast("double *", x.ctypes.data), ffi.cast("double *", logw.ctypes.data))
        return (x, logw) if status == lib.SOSMC_OK else None

    def solution(self) -> Any:
        out = ffi.gc(ffi.new("sosmc_solution *"), lib.sosmc_solution_free)
        self._check(lib.sosmc_solver_solution(self.pointer, out))
        return out

    def hash(self) -> int:
        return int(lib.sosmc_solver_hash(self.pointer))

    def trace(self) -> dict[str, Array]:
        p = self.problem.model.dim_theta
        names = COLUMNS + tuple(f"theta_{k + 1}" for k in range(p if p <= lib.BINDING_THETAS else 0))
        table = np.array(self.rows, dtype=np.float64).reshape(len(self.rows), len(names))
        return {name: table[:, k].astype(np.int64) if name in WHOLE_NUMBERS else table[:, k] for k, name in enumerate(names)}
