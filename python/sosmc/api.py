"""The verbs: minimize, iterate and Sampler."""

from __future__ import annotations

import os
from typing import Any, Callable, Iterator

from ._c import lib
from ._calls import Array
from ._engine import Engine, Info, iterations_of
from ._errors import text
from ._keys import refuse_unknown
from ._problem import Problem
from ._progress import Progress, wanted
from ._signals import Interrupt
from ._solver import Solver
from .model import Model
from .objectives import Objective, mmle
from .result import Judgement, Result

_OTHERS = ("progress", "callback")


def _prepare(function: str, model: Model, objective: Objective | None, keywords: dict[str, Any], explicit: bool) -> Problem:
    if not isinstance(model, Model):
        raise TypeError(f"model is {type(model).__name__}; expected a sosmc.Model, such as sosmc.from_jax and sosmc.models make")
    if objective is not None and not isinstance(objective, Objective):
        raise TypeError(f"objective is {type(objective).__name__}; expected sosmc.mmle(), likelihood(...), reward(...) or sampling()")
    refuse_unknown(function, keywords, _OTHERS)
    if explicit and "settings" not in keywords:
        keywords = {"settings": "explicit", **keywords}
    return Problem(model, objective or mmle(), keywords)


class Sampler:
    """A run whose settings are chosen, step by step.

    The arguments are those of `minimize`. Between steps everything may be looked at:

    >>> import sosmc
    >>> model = sosmc.Model(lambda t, x: (0.5 * ((x - t) ** 2).sum(1), x - t), lambda t, x, c: (c * (t - x[:, 0])).sum(),
    ...                     theta0=0.0, dim_x=1)
    >>> s = sosmc.Sampler(model, sosmc.sampling(), kernel="ula", particles=64)
    >>> done = s.run(10)
    >>> s.iteration, s.particles.shape
    (10, (64, 1))
    """

    def __init__(self, model: Model, objective: Objective | None = None, **keywords: Any) -> None:
        self._engine = Engine(_prepare("Sampler", model, objective, keywords, True))
        self.model = model
        self.stopped = False

    def step(self) -> Info:
        """One iteration."""
        self._engine.step()
        return self._engine.info()

    def run(self, iterations: int, *, progress: bool | None = False, callback: Callable[[Sampler], Any] | None = None) -> bool:
        """So many iterations. Ctrl-C, or a callback that returns True, ends it after an iteration; then False is returned."""
        shown = Progress() if wanted(progress) else None
        with Interrupt() as interrupt:
            try:
                done = self._engine.run(iterations, interrupt, shown, callback, self)
            finally:
                if shown:
                    shown.end()
        return done

    def stop(self) -> None:
        """Ends the loop of `iterate` after this iteration."""
        self.stopped = True

    @property
    def iteration(self) -> int:
        """Iterations so far."""
        return self._engine.iteration

    @property
    def info(self) -> Info:
        """What the last iteration said of itself."""
        return self._engine.info()

    @property
    def theta(self) -> Any:
        """theta now, in the shape of theta0."""
        return self.model.unpack(self._engine.theta())

    @property
    def theta_average(self) -> Any:
        """The average of theta over iterations (optimiser={"average": ...}); theta where there is none."""
        return self.model.unpack(self._engine.theta(average=True))

    @property
    def gradient(self) -> Any:
        """The gradient of the last update."""
        return self.model.unpack(self._engine.gradient())

    @property
    def particles(self) -> Array:
        """The particles now, shape (N, dim_x); a copy."""
        return self._engine.cloud()[0]

    @property
    def log_weights(self) -> Array:
        """The normalised log-weights of the particles; a copy."""
        return self._engine.cloud()[1]

    @property
    def trace(self) -> dict[str, Array]:
        """The iterations so far, as arrays under the names of trace.csv."""
        return self._engine.trace()

    @property
    def settings(self) -> str:
        """The resolved run file, as YAML text."""
        return self._engine.problem.file.yaml()

    def hash(self) -> str:
        """A hash of everything that decides where the run goes."""
        return f"{self._engine.hash():016x}"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a checkpoint."""
        self._engine.save(path)

    def load(self, path: str | os.PathLike[str]) -> None:
        """Goes on from a checkpoint of the same model and settings, with the same bits."""
        self._engine.load(path)

    def result(self) -> Result:
        """What the run is worth now."""
        with Interrupt() as interrupt:
            return _explicit_result(self._engine, interrupt, "")


def _explicit_result(engine: Engine, interrupt: Interrupt, stopped: str) -> Result:
    problem = engine.problem
    judged = engine.judge(interrupt) if problem.settings.judge > 0 else None
    info = engine.info()
    return Result(model=problem.model, settings=problem.file.yaml(), values=problem.file.values(),
                  judgement=Judgement.from_c(judged) if judged else None, theta_flat=engine.theta(), trace=engine.trace(),
                  cloud=engine.cloud(), iterations=engine.iteration, stopped=stopped, why_no_loss=engine.why_no_loss(),
                  hash=f"{engine.hash():016x}", last={"ess": info.ess, "acceptance": info.accept, "step": info.h})


def _run_explicit(problem: Problem, shown: Progress | None, callback: Callable[[Any], Any] | None) -> Result:
    with Interrupt() as interrupt:
        engine = Engine(problem)
        state = Sampler.__new__(Sampler)
        state._engine, state.model, state.stopped = engine, problem.model, False
        try:
            done = engine.run(problem.iterations, interrupt, shown, callback, state)
        finally:
            if shown:
                shown.end()
        stopped = "" if done else "Ctrl-C" if interrupt.asked else "the callback"
        return _explicit_result(engine, interrupt, stopped)


def _run_solver(problem: Problem, shown: Progress | None, callback: Callable[[Any], Any] | None) -> Result:
    with Interrupt() as interrupt:
        solver = Solver(problem, interrupt, shown, callback)
        try:
            done = solver.run()
        finally:
            if shown:
                shown.end()
        solution = solver.solution()
        stopped = "" if done else "Ctrl-C" if interrupt.asked else "the callback"
        info = solution.info
        return Result(model=problem.model, settings=problem.file.yaml(), values=problem.file.values(),
                      judgement=Judgement.from_c(solution.judgement), theta_flat=solver.theta(), trace=solver.trace(),
                      cloud=solver.cloud(), iterations=int(info.step), stopped=stopped, automatic=True, hash=f"{solver.hash():016x}",
                      last={"ess": info.ess, "acceptance": info.accept, "phase": text(lib.sosmc_phase_name(info.phase)),
                            "evaluations": int(info.evaluations), "contractions": int(info.contractions)})


def minimize(model: Model, objective: Objective | None = None, *, progress: bool | None = None,
             callback: Callable[[Any], Any] | None = None, **keywords: Any) -> Result:
    """Minimises an objective over theta.

    Without any other keyword the solver does it: it finds where particles start, how they move, how far theta goes and when to
    end, and gives an answer with its errors and a verdict, or says that it has none. `seed`, `threads`, `particles`, `init`,
    `precision` and `limits` may be given with it.

    Any keyword of an explicit run makes it one: `kernel`, `scheme`, `optimiser`, `resampling`, `adapt`, `iterations`,
    `on_nonfinite`, `on_collapse`, `judge`. Keywords are the keys of a run file (docs/run-file.md) with the same values:
    kernel="ula", kernel={"type": "ula", "step": 0.1}, optimiser={"type": "adam", "rate": 0.02}. `result.settings` is the run file.

    progress
        None shows a line on terminals and in notebooks; True and False are always and never.
    callback
        Called after every iteration with a `Sampler` (of the solver: with the solver); True ends the run.

    Ctrl-C ends the run after the iteration, and the result is that of a run of this length; a second Ctrl-C raises
    KeyboardInterrupt. An exception of a function of the model is raised as it is.
    """
    problem = _prepare("minimize", model, objective, keywords, False)
    shown = Progress() if wanted(progress) else None
    return (_run_solver if problem.automatic else _run_explicit)(problem, shown, callback)


def iterate(model: Model, objective: Objective | None = None, **keywords: Any) -> Iterator[Sampler]:
    """The iterations of an explicit run, one for every turn of a loop: for s in sosmc.iterate(model, ...): print(s.info.ess).

    `iterations` is the number of turns; s.stop() ends the loop, Ctrl-C does too.
    """
    sampler = Sampler(model, objective, **keywords)
    return iterations_of(sampler._engine, sampler, sampler._engine.problem.iterations)
