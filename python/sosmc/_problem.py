"""From a model, an objective and keywords to the values that the library takes, with everything that they point to."""

from __future__ import annotations

import warnings
from typing import Any, Mapping

import numpy as np

from ._c import ffi, lib
from ._calls import Array, Calls, SourceCalls
from ._keys import Job, RunFile
from .model import Law, Model
from .objectives import Objective, points


class Problem:
    """A problem of the library. It must be kept as long as an engine or a solver uses it."""

    def __init__(self, model: Model, objective: Objective, keywords: Mapping[str, Any]) -> None:
        self.model, self.objective = model, objective
        self.keep: list[Any] = []
        self.sources: list[SourceCalls] = []
        init = keywords.get("init", model.init)
        self.file = RunFile(self._keys(dict(keywords), init))
        self.job = Job(self.file)
        self.automatic, self.iterations = self.job.automatic, self.job.iterations
        self.settings = ffi.new("sosmc_settings *", self.job.settings[0])
        self.solve = ffi.new("sosmc_solve_options *", self.job.solve[0]) if self.automatic else ffi.NULL
        particles = self.solve.particles if self.automatic else self.settings.scheme.particles
        self.calls = Calls(model, objective.score, model.dim_x, passes=2 * -(-particles // model.tile))
        self.problem = ffi.new("sosmc_problem *", self.job.problem[0])
        self.problem.model = self._model()
        self.problem.theta0 = self._numbers(model.theta0)
        self.problem.objective = self._objective()
        self.problem.init = self._init(init)
        self._one_thread()

    # ------------------------------------------------------------------ keys

    def _keys(self, keywords: dict[str, Any], init: Any) -> dict[str, Any]:
        """The run file. The model in it stands for the user's own, which only Python knows."""
        out: dict[str, Any] = {"model": {"type": "hierarchical_gaussian", "y": [0.0] * self.model.dim_x}}
        kind = self.objective.kind
        if kind == "none":
            out["objective"] = {"type": "none"}
        else:
            out["objective"] = {"type": "mmle"}
        out.update({k: v for k, v in keywords.items() if v is not None})
        out.pop("init", None)
        if isinstance(init, (str, dict)):
            out["init"] = init
        else:
            out["init"] = {"type": "normal"}
        return out

    # ------------------------------------------------------------------ pieces

    def _numbers(self, array: Array) -> Any:
        array = np.ascontiguousarray(array, dtype=np.float64)
        self.keep.append(array)
        return ffi.cast("double *", array.ctypes.data)

    def _model(self) -> Any:
        m = self.model
        out = ffi.new("sosmc_model *")
        out.dim_x, out.dim_theta, out.tile, out.rounding = m.dim_x, m.dim_theta, m.tile, m.rounding
        out.work = 8  # bytes per particle
        out.self = self.calls.handle
        out.energy, out.grad_theta = lib.binding_energy, lib.binding_grad_theta
        if m.scores is not None:
            out.scores = lib.binding_scores
        if m.prox is not None:
            out.prox = lib.binding_prox
        out.no_gx = not m.gradient
        return out[0]

    def _rows(self, array: Array, mode: int, batch: int = 0) -> Any:
        rows = ffi.new("sosmc_rows *", {"data": self._numbers(array), "rows": len(array), "mode": mode, "batch": batch})
        self.keep.append(rows)
        return lib.sosmc_rows_source(rows)

    def _law(self, law: Law, name: str) -> Any:
        calls = SourceCalls(name, self.model.dim_x, law.draw, law.logpdf)
        calls.error_to = self.calls
        self.sources.append(calls)
        source = ffi.new("sosmc_source *", {"self": calls.handle, "draw": lib.binding_draw, "exact": law.exact})
        if law.logpdf is not None:
            source.logpdf = lib.binding_logpdf
        return source[0]

    def _points(self, value: Any, name: str) -> Array:
        array = points(value, name)
        if array.shape[1] != self.model.dim_x:
            raise ValueError(f"{name} has points of {array.shape[1]} numbers; expected {self.model.dim_x}")
        return array

    def _score(self) -> Any:
        return ffi.new("sosmc_score *", {"self": self.calls.handle, "eval": lib.binding_reward})[0]

    def _objective(self) -> Any:
        o = self.objective
        if o.kind == "mmle":
            return lib.sosmc_mmle()
        if o.kind == "none":
            return lib.sosmc_sampling(self._score() if o.score else ffi.new("sosmc_score *")[0])
        if o.kind == "ebm_likelihood":
            return self._likelihood()
        score = self._score()
        if o.kind == "reward_reverse":
            theta = self.model.theta0 if o.reference is None else self.model.pack(o.reference)
            return lib.sosmc_reward_reverse(score, o.keys["beta"], self._numbers(theta))
        source = (self._law(o.reference, "reference") if isinstance(o.reference, Law)
                  else self._rows(self._points(o.reference, "reference"), lib.SOSMC_ROWS_RANDOM))
        return lib.sosmc_reward_forward(score, o.keys["beta"], source, o.keys.get("reference", {}).get("batch", 1000), ffi.NULL)

    def _likelihood(self) -> Any:
        o = self.objective
        batch = o.keys.get("batch", 0)
        if isinstance(o.data, Law):
            return lib.sosmc_likelihood(self._law(o.data, "data"), batch)
        array = self._points(o.data, "data")
        mode = (lib.SOSMC_ROWS_IN_ORDER if not batch
                else lib.SOSMC_ROWS_EPOCHS if o.keys.get("batches") == "epochs" else lib.SOSMC_ROWS_RANDOM)
        return lib.sosmc_likelihood(self._rows(array, mode, batch), batch or len(array))

    def _init(self, init: Any) -> Any:
        if isinstance(init, Law):
            return self._law(init, "init")
        if init is None and self.automatic:
            return ffi.new("sosmc_source *")[0]  # the solver finds its own
        if init is None or isinstance(init, (str, dict)):
            return self.job.problem.init
        return self._rows(self._points(init, "init"), lib.SOSMC_ROWS_IN_ORDER)

    def _one_thread(self) -> None:
        python = not self.model.machine_code or self.objective.score is not None or self.sources
        if python and self.settings.threads > 1:
            warnings.warn(f"threads is {self.settings.threads}, and functions of Python run on one thread at a time: this run has one",
                          RuntimeWarning, stacklevel=5)
            self.settings.threads = 1
            if self.automatic:
                self.solve.threads = 1
