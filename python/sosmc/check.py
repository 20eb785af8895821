"""Tests of a model before anyone waits for its run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ._c import ffi, lib
from ._errors import exception, text
from ._problem import Problem
from .model import Model
from .objectives import Objective

_VERDICTS = {0: "ok", 1: "FAIL", 2: "skipped", 3: "note", 4: "warning", 5: "not known"}


@dataclass(frozen=True)
class CheckItem:
    """One test: its name, its verdict ("ok", "FAIL", "skipped", "note", "warning" or "not known"), what was measured, and a sentence.

    coordinate
        Of x or of theta, counted from 0: where a gradient or a score is wrong; None elsewhere. `parameter` is its name in theta.
    """

    name: str
    verdict: str
    value: float
    error: float
    sentence: str
    coordinate: int | None = None
    parameter: str = ""


class Check:
    """The table of tests that `sosmc.check` makes; true where none has failed."""

    def __init__(self, items: list[CheckItem]) -> None:
        self.items = items

    @property
    def ok(self) -> bool:
        return all(item.verdict != "FAIL" for item in self.items)

    def __bool__(self) -> bool:
        return self.ok

    def __getitem__(self, name: str) -> CheckItem:
        for item in self.items:
            if item.name == name:
                return item
        raise KeyError(f"there is no test {name!r}; the tests are {', '.join(i.name for i in self.items)}")

    def __str__(self) -> str:
        return "\n".join(f"{i.name:18} {i.verdict:8} {i.sentence}".rstrip() for i in self.items)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from html import escape

        rows = "".join(f"<tr><td>{escape(i.name)}</td><td>{escape(i.verdict)}</td><td style='text-align:left'>{escape(i.sentence)}</td></tr>"
                       for i in self.items)
        return f"<table><tr><th>test</th><th>verdict</th><th>what was found</th></tr>{rows}</table>"


def check_problem(problem: Problem, iterations: int) -> Check:
    """sosmc_check on a problem, or sosmc_solve_check where the solver chooses."""
    report = ffi.new("sosmc_check_report *")
    if problem.automatic:
        status = lib.sosmc_solve_check(problem.problem, problem.solve_options(), report)
    else:
        options = ffi.new("sosmc_check_options *", {"iterations": iterations, "threads": 1 if problem.python else 2})
        status = lib.sosmc_check(problem.problem, problem.settings, options, report)
    problem.calls.raise_again("")
    if status not in (lib.SOSMC_OK, lib.SOSMC_EINVAL):
        raise exception(status, "")
    return Check([_item(report.item[k], problem.model.names) for k in range(report.count)])


def _item(c: Any, names: list[str]) -> CheckItem:
    name, sentence, coordinate = text(c.name), text(c.sentence), int(c.coordinate)
    parameter = names[coordinate] if coordinate >= 0 and name in ("gradient in theta", "scores") else ""
    if parameter:
        sentence = f"{sentence}; this coordinate of theta is {parameter}"
    return CheckItem(name, _VERDICTS[int(c.verdict)], float(c.value), float(c.error), sentence,
                     coordinate if coordinate >= 0 else None, parameter)


def check(model: Model, objective: Objective | None = None, *, iterations: int = 20, **keywords: Any) -> Check:
    """Tests a model before anyone waits for its run, in the way that `minimize` would run it with the same keywords.

    The gradient in x and in theta are compared with differences of U, and the sentence of one that fails names the coordinate. Then the
    solver, with few particles, says what its verdict is: "ok" where it converges, else a note for each reason. With a keyword of an
    explicit run, such as `kernel`, the weights along a closed path of theta must come back to where they began, and a short run of
    `iterations` must stay finite. A test that cannot tell is "not known". `sosmc check FILE` makes the same tests.

    >>> import numpy as np, sosmc
    >>> wrong = sosmc.Model(lambda t, x: (0.5 * ((x - t) ** 2).sum(1), 2 * (x - t)), lambda t, x, c: c @ (t - x),
    ...                     theta0=np.zeros(2), dim_x=2)
    >>> report = sosmc.check(wrong)
    >>> report.ok, report["gradient in x"].verdict
    (False, 'FAIL')
    """
    from .api import _prepare

    return check_problem(_prepare("check", model, objective, keywords, False), iterations)
