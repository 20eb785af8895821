"""From a model, an objective and keywords to the values that the library takes, with everything that they point to."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from typing import Any, Mapping

import numpy as np

from ._c import ffi, lib
from ._calls import Array, Calls, SourceCalls
from ._keys import Job, RunFile
from .model import Law, Model
from .objectives import Objective, points


class Problem:
    """A problem of the library. It must be kept as long as an engine or a solver uses it.

    A run file describes it, in which `own` stands for what only Python knows; the library takes that from the struct embed_own.
    """

    def __init__(self, model: Model, objective: Objective, keywords: Mapping[str, Any]) -> None:
        self.model, self.objective = model, objective
        self.keep: list[Any] = []
        self.sources: list[SourceCalls] = []
        self.calls = Calls(None if model.keys else model, objective.score, model.dim_x)
        self.own = ffi.new("embed_own *")
        chosen = {k: v for k, v in keywords.items() if v is not None}
        init = chosen.pop("init", model.init)
        keys = {"model": self._model_keys(), "objective": self._objective_keys(), **chosen}
        if init is not None:
            keys["init"] = self._init_key(init)
        self._threads(keys)
        self.file = RunFile(keys, own=self.own)
        self.job = Job(self.file)
        self.job.must_fit()
        self.automatic, self.iterations = self.job.automatic, self.job.iterations
        self.problem = ffi.new("sosmc_problem *", self.job.problem[0])
        self.settings = ffi.new("sosmc_settings *", self.job.settings[0])
        self.solve = ffi.new("sosmc_solve_options *", self.job.solve[0]) if self.automatic else ffi.NULL
        self._patch(init)
        particles = self.solve.particles if self.automatic else self.settings.scheme.particles
        self.calls.passes = 2 * -(-particles // max(1, model.tile))

    @property
    def python(self) -> bool:
        """Whether the run calls functions that hold Python's lock."""
        o = self.objective
        return not (self.model.keys or self.model.machine_code) or o.score is not None or bool(self.sources)

    # ------------------------------------------------------------------ the run file

    def _model_keys(self) -> dict[str, Any]:
        m = self.model
        if m.keys:
            return m.keys
        self.own.model = self._model()
        self.own.theta0 = self._numbers(m.theta0)
        names = [ffi.new("char[]", n.encode()[: lib.EMBED_NAME - 1]) for n in m.names]
        self.own.names = ffi.new("char *[]", names)
        self.own.observations = m.rows
        self.keep += [names, self.own.names]
        return {"type": "own", "name": m.name, "dim_x": m.dim_x, "dim_theta": m.dim_theta, **m.bounds}

    def _objective_keys(self) -> dict[str, Any]:
        o = self.objective
        keys: dict[str, Any] = {"type": o.kind, **o.keys}
        if o.score is not None:
            self.own.reward = self._kept("sosmc_score *", {"self": self.calls.handle, "eval": lib.binding_reward})
            keys["reward"] = {"type": "own"}
        if o.data is not None:
            array = np.zeros((1, self.model.dim_x)) if isinstance(o.data, Law) else self._points(o.data, "data")
            self.own.points, self.own.rows = self._numbers(array), len(array)
            keys["data"] = {"type": "own"}
        if o.reference is not None:
            keys["reference"] = {**keys.get("reference", {}), **self._reference(o)}
        elif o.kind == "reward_forward" and not self.model.keys:
            raise ValueError('kl="forward" needs reference, draws of pi_ref: an array (n, dim_x) or a sosmc.Law')
        return keys

    def _reference(self, o: Objective) -> dict[str, Any]:
        """Keys of the reference: a theta, or draws."""
        if o.kind == "reward_reverse":
            return {"theta": self.model.pack(o.reference).tolist()}
        if isinstance(o.reference, Law):
            if self.model.keys:
                raise TypeError("a built-in model takes an array of draws, or a theta, as the reference of a forward divergence")
            self.own.reference = self._law(o.reference, "reference")
            return {}
        if self.model.keys and np.size(o.reference) == self.model.dim_theta and np.ndim(o.reference) < 2:
            return {"theta": self.model.pack(o.reference).tolist()}
        array = self._points(o.reference, "reference")
        if self.model.keys:
            return {"file": self._stored(array)}
        self.own.reference = self._kept("sosmc_source *", self._rows(array, lib.SOSMC_ROWS_RANDOM))
        return {}

    def _init_key(self, init: Any) -> Any:
        if isinstance(init, (str, dict)):
            return init
        if isinstance(init, Law):
            self.own.init = self._law(init, "init")
        else:
            self.own.init = self._kept("sosmc_source *", self._rows(self._points(init, "init"), lib.SOSMC_ROWS_IN_ORDER))
        return {"type": "own"}

    def _threads(self, keys: dict[str, Any]) -> None:
        threads = keys.get("threads", 1)
        if self.python and isinstance(threads, int) and threads > 1:
            warnings.warn(f"threads is {threads}, and functions of Python run on one thread at a time: this run has one thread",
                          RuntimeWarning, stacklevel=5)
            keys["threads"] = 1

    def _patch(self, init: Any) -> None:
        """What a run file has no words for."""
        if isinstance(self.objective.data, Law):
            self.problem.objective.data = self._law(self.objective.data, "data")[0]
        if self.automatic and init is None and not self.model.keys:
            self.problem.init = ffi.new("sosmc_source *")[0]  # the solver finds where particles start

    # ------------------------------------------------------------------ values of the library

    def _kept(self, kind: str, value: Any) -> Any:
        out = ffi.new(kind, value)
        self.keep.append(out)
        return out

    def _numbers(self, array: Array) -> Any:
        array = np.ascontiguousarray(array, dtype=np.float64)
        self.keep.append(array)
        return ffi.cast("double *", array.ctypes.data)

    def _model(self) -> Any:
        m = self.model
        out = self._kept("sosmc_model *", None)
        out.dim_x, out.dim_theta, out.tile, out.rounding = m.dim_x, m.dim_theta, m.tile, m.rounding
        out.work = 8  # bytes per particle
        out.self = self.calls.handle
        out.energy, out.grad_theta = lib.binding_energy, lib.binding_grad_theta
        if m.scores is not None:
            out.scores = lib.binding_scores
        if m.prox is not None:
            out.prox = lib.binding_prox
        out.no_gx = not m.gradient
        return out

    def _rows(self, array: Array, mode: int) -> Any:
        return lib.sosmc_rows_source(self._kept("sosmc_rows *", {"data": self._numbers(array), "rows": len(array), "mode": mode}))

    def _law(self, law: Law, name: str) -> Any:
        calls = SourceCalls(name, self.model.dim_x, law.draw, law.logpdf)
        calls.error_to = self.calls
        self.sources.append(calls)
        source = self._kept("sosmc_source *", {"self": calls.handle, "draw": lib.binding_draw, "exact": law.exact})
        if law.logpdf is not None:
            source.logpdf = lib.binding_logpdf
        return source

    def _points(self, value: Any, name: str) -> Array:
        array = points(value, name)
        if array.shape[1] != self.model.dim_x:
            raise ValueError(f"{name} has points of {array.shape[1]} numbers; expected {self.model.dim_x}")
        return array

    def _stored(self, array: Array) -> str:
        """A file for an array, that is there as long as this problem."""
        folder = tempfile.TemporaryDirectory(prefix="sosmc-")
        self.keep.append(folder)
        path = Path(folder.name) / "points.npy"
        np.save(path, array)
        return str(path)

    def judge_options(self) -> Any:
        """For sosmc_judge."""
        options = ffi.new("sosmc_judge_options *")
        options.rows = lib.embed_job_rows(self.job.pointer)
        options.why_no_log_z = lib.embed_job_why_no_log_z(self.job.pointer)
        self._say_no_log_z(options)
        return options

    def _say_no_log_z(self, options: Any) -> None:
        if self.model.log_z is not True:
            options.why_no_log_z = self._kept("char[]", (self.model.log_z or "exp(-U) need not have a finite integral").encode())

    def solve_options(self) -> Any:
        """For sosmc_solver_create."""
        self._say_no_log_z(self.solve)
        return self.solve
