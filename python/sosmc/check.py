"""Tests of a model before anyone waits for its run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ._c import ffi, lib
from ._calls import Array
from ._errors import exception, text
from ._problem import Problem
from .model import Model
from .objectives import Objective

_VERDICTS = {0: "ok", 1: "FAIL", 2: "skipped", 3: "note", 4: "warning"}


@dataclass(frozen=True)
class CheckItem:
    """One test: its name, its verdict ("ok", "FAIL", "skipped", "note" or "warning"), what was measured, and a sentence."""

    name: str
    verdict: str
    value: float
    error: float
    sentence: str


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
    """sosmc_check on a problem, and, where a gradient is wrong, which coordinate of it."""
    options = ffi.new("sosmc_check_options *", {"iterations": iterations, "threads": 1 if problem.python else 2})
    report = ffi.new("sosmc_check_report *")
    status = lib.sosmc_check(problem.problem, problem.settings, options, report)
    problem.calls.raise_again("")
    if status != lib.SOSMC_OK:
        raise exception(status, "")
    items = []
    for k in range(report.count):
        c = report.item[k]
        sentence = text(c.sentence)
        if c.verdict == lib.SOSMC_CHECK_FAIL and text(c.name).startswith("gradient"):
            sentence = f"{sentence}. {_worst(problem, text(c.name))}"
        items.append(CheckItem(text(c.name), _VERDICTS[int(c.verdict)], float(c.value), float(c.error), sentence))
    return Check(items)


# ---------------------------------------------------------------------------- which coordinate is wrong


class _Host:
    """The model of a problem outside a run."""

    def __init__(self, problem: Problem, theta: Array) -> None:
        self.problem, self.d, self.p = problem, problem.model.dim_x, problem.model.dim_theta
        out = ffi.new("sosmc_host **")
        self._ok(lib.sosmc_host_create(out, ffi.addressof(problem.problem, "model"), _at(theta), 0))
        self.pointer = ffi.gc(out[0], lib.sosmc_host_free)

    def _ok(self, status: int) -> None:
        self.problem.calls.raise_again("")
        if status != lib.SOSMC_OK:
            raise exception(status, "")

    def energies(self, x: Array, theta: Array | None = None) -> Array:
        if theta is not None:
            self._ok(lib.sosmc_host_move(self.pointer, _at(theta)))
        U = np.empty(len(x))
        self._ok(lib.sosmc_host_energies(self.pointer, len(x), _at(x), _at(U)))
        return U

    def gradients(self, x: Array) -> Array:
        U, gx = np.empty(len(x)), np.empty_like(x)
        self._ok(lib.sosmc_host_gradients(self.pointer, len(x), _at(x), _at(U), _at(gx)))
        return gx

    def contract(self, x: Array, c: Array) -> Array:
        g = np.zeros(self.p)
        self._ok(lib.sosmc_host_contract(self.pointer, len(x), _at(x), _at(c), _at(g)))
        return g


def _at(array: Array) -> Any:
    return ffi.cast("double *", array.ctypes.data)


MOST_COORDINATES = 200


def _worst(problem: Problem, which: str) -> str:
    """A sentence that names the coordinate of the gradient which is furthest from central differences of U."""
    model = problem.model
    rng = np.random.default_rng(0)
    theta = model.theta0.copy()
    x = np.ascontiguousarray(rng.normal(size=(8, model.dim_x)))
    host = _Host(problem, theta)
    step = max(model.rounding, 1e-16) ** (1 / 3)
    if which == "gradient in x":
        told, name = host.gradients(x), "dU/dx"
        count = min(model.dim_x, MOST_COORDINATES)
        found = np.stack([_slope(lambda e, j=j: host.energies(_moved(x, j, e)), step) for j in range(count)], axis=1)
        labels = [f"coordinate {j} of x" for j in range(count)]
        wrong = np.abs(told[:, :count] - found).max(axis=0)
        scale, ours, theirs = np.abs(found).max() + 1e-300, told[:, :count], found
    else:
        c = np.ones(len(x)) / len(x)
        told, name = host.contract(x, c), "grad_theta"
        count = min(model.dim_theta, MOST_COORDINATES)
        found = np.array([_slope(lambda e, j=j: host.energies(x, _shifted(theta, j, e)) @ c, step) for j in range(count)])
        labels = model.names[:count]
        wrong = np.abs(told[:count] - found)
        scale, ours, theirs = np.abs(found).max() + 1e-300, told[None, :count], found[None]
    if not np.all(np.isfinite(wrong)):
        j = int(np.argmax(~np.isfinite(wrong)))
        return f"{name} of {labels[j]} is not finite."
    j = int(np.argmax(wrong))
    row = int(np.argmax(np.abs(ours - theirs)[:, j]))
    several = int(np.sum(wrong > 0.01 * scale))
    more = f" ({several} of {count} are wrong)" if several > 1 else ""
    return f"The worst is {labels[j]}: {name} says {ours[row, j]:.6g}, differences of U say {theirs[row, j]:.6g}{more}."


def _moved(x: Array, j: int, e: float) -> Array:
    out = x.copy()
    out[:, j] += e
    return out


def _shifted(theta: Array, j: int, e: float) -> Array:
    out = theta.copy()
    out[j] += e
    return out


def _slope(f: Any, e: float) -> Any:
    return (f(e) - f(-e)) / (2 * e)


def check(model: Model, objective: Objective | None = None, *, iterations: int = 20, **keywords: Any) -> Check:
    """Tests a model before anyone waits for its run: gradients, weights, a short run.

    The gradient in x and in theta are compared with differences of U, and the sentence of one that fails names the coordinate; the
    weights along a closed path of theta must come back to where they began; a short run must stay finite. Keywords are those of
    `minimize`; without a kernel the tests use "ula".

    >>> import numpy as np, sosmc
    >>> wrong = sosmc.Model(lambda t, x: (0.5 * ((x - t) ** 2).sum(1), 2 * (x - t)), lambda t, x, c: c @ (t - x),
    ...                     theta0=np.zeros(2), dim_x=2)
    >>> report = sosmc.check(wrong)
    >>> report.ok, report["gradient in x"].verdict
    (False, 'FAIL')
    """
    from .api import _prepare

    if "kernel" not in keywords:
        keywords["kernel"] = "ula" if model.gradient else "rwm"
    return check_problem(_prepare("check", model, objective, keywords, True), iterations)
