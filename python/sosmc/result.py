"""Results: theta with its errors, the objective with its error, and a verdict."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from html import escape
from typing import Any, Mapping

import numpy as np

from ._c import ffi
from ._calls import Array
from ._errors import text
from ._extras import require

_VERDICTS = {0: "converged", 1: "not converged", 2: "failed"}
_NAN = float("nan")


@dataclass(frozen=True)
class Number:
    """A number with its standard error. What is not known is NaN, and `why` says why."""

    value: float
    error: float
    why: str = ""

    def __float__(self) -> float:
        return self.value

    def __repr__(self) -> str:
        if not np.isfinite(self.value):
            return f"none ({self.why})" if self.why else "none"
        if np.isfinite(self.error):
            return f"{self.value:.6g} +- {self.error:.2g}"
        return f"{self.value:.6g} (no error: {self.why})"


class Judgement:
    """What a run is worth, as the library judged it."""

    verdict: str
    reasons: list[str]
    theta: Array | None = None
    mc_error: Array | None = None
    mc_covariance: Array | None = None
    standard_error: Array | None = None
    low: Array | None = None
    high: Array | None = None
    why_no_mc_error: str
    why_no_standard_error: str
    loss: Number
    log_z: Number
    kl: Number
    reward: Number
    aic: float
    bic: float

    @classmethod
    def from_c(cls, c: Any) -> Judgement:
        """From the struct sosmc_judgement."""
        out, p = cls(), int(c.dim_theta)

        def take(pointer: Any) -> Array | None:
            return np.frombuffer(ffi.buffer(pointer, 8 * p)).copy() if pointer != ffi.NULL else None

        def number(n: Any) -> Number:
            return Number(float(n.value), float(n.error), text(n.why))

        out.verdict = _VERDICTS[int(c.verdict.status)]
        out.reasons = [text(c.verdict.reason[i]) for i in range(c.verdict.reasons)]
        out.theta, out.mc_error, out.standard_error = take(c.theta), take(c.theta_mc_error), take(c.theta_standard_error)
        if c.theta_mc_covariance != ffi.NULL:
            out.mc_covariance = np.frombuffer(ffi.buffer(c.theta_mc_covariance, 8 * p * p)).reshape(p, p).copy()
        out.low, out.high = take(c.theta_low), take(c.theta_high)
        out.why_no_mc_error, out.why_no_standard_error = text(c.why_no_mc_error), text(c.why_no_standard_error)
        out.loss, out.log_z, out.kl, out.reward = number(c.loss), number(c.log_z), number(c.kl), number(c.reward)
        out.aic, out.bic = float(c.aic), float(c.bic)
        return out

    @classmethod
    def from_summary(cls, summary: Mapping[str, Any]) -> Judgement | None:
        """From summary.json; None: the run was not judged."""
        verdict = summary.get("verdict") or {}
        if not verdict.get("status"):
            return None
        out = cls()

        def take(name: str) -> Array | None:
            value = summary.get(name)
            return np.array(value, dtype=np.float64) if value is not None else None

        def number(name: str) -> Number:
            value, error = summary.get(name), summary.get(name + "_error")
            return Number(_NAN if value is None else value, _NAN if error is None else error, summary.get(name + "_why") or "")

        out.verdict = str(verdict["status"]).replace("_", " ")
        out.reasons = list(verdict.get("reasons") or [])
        out.theta, out.mc_error, out.standard_error = take("theta"), take("theta_mc_error"), take("theta_standard_error")
        out.low, out.high = take("theta_low"), take("theta_high")
        out.why_no_mc_error = summary.get("theta_mc_error_why") or ""
        out.why_no_standard_error = summary.get("theta_standard_error_why") or ""
        out.loss, out.log_z, out.kl, out.reward = number("loss"), number("log_z"), number("kl"), number("reward")
        out.aic, out.bic = summary.get("aic") or _NAN, summary.get("bic") or _NAN
        return out


class Result:
    """What a run found.

    theta, theta_flat
        The estimate, in the shape of theta0 and as a flat vector. `last_theta` is where theta was in the end.
    mc_error, stderr
        Its Monte Carlo standard error and, for likelihoods, its statistical one, in the same shape; None where there is none, and
        `why_no_mc_error` and `why_no_stderr` say why. `conf_int` is a 95 % interval from both, or None.
    fun, logz, kl, reward
        The objective at theta, log Z and so on: numbers with their standard errors (`result.fun.value`, `result.fun.error`).
    verdict, reasons
        "converged", "not converged" or "failed", and sentences that say why.
    success, message, nit
        Whether the run ended by itself and converged; the verdict in a sentence; the number of iterations.
    trace
        A dict of arrays, one number for every iteration, under the names of trace.csv.
    particles, weights
        The last particles (N, dim_x) and their weights, which sum to 1; `log_weights` are their logarithms.
    settings
        The resolved run file, as YAML text.
    hash
        A hash of the state of the run, as `sosmc run` writes it into summary.json.
    """

    def __init__(self, *, model: Any, settings: str, values: Mapping[str, Any], judgement: Judgement | None, theta_flat: Array,
                 trace: dict[str, Array], cloud: tuple[Array, Array] | None, iterations: int, stopped: str = "",
                 automatic: bool = False, why_no_loss: str = "", hash: str = "", last: Mapping[str, Any] | None = None) -> None:
        self.model, self.settings, self.values, self.judgement = model, settings, dict(values), judgement
        self.last_theta = model.unpack(theta_flat)
        self.last_theta_flat = np.array(theta_flat)
        flat = judgement.theta if judgement is not None and judgement.theta is not None else theta_flat
        self.theta_flat = np.array(flat)
        self.theta = model.unpack(self.theta_flat)
        self.trace, self.nit, self.automatic, self.hash = trace, iterations, automatic, hash
        self.why_no_loss, self.stopped, self.last = why_no_loss, stopped, dict(last or {})
        none = Number(_NAN, _NAN, "the run was not judged")
        self.fun = judgement.loss if judgement else none
        self.logz = judgement.log_z if judgement else none
        self.kl = judgement.kl if judgement else none
        self.reward = judgement.reward if judgement else none
        self.verdict = judgement.verdict if judgement else "not judged"
        names = model.names
        self.reasons = [re.sub(r"\btheta_(\d+)\b", lambda m: names[int(m[1]) - 1] if 0 < int(m[1]) <= len(names) else m[0], r)
                        for r in (judgement.reasons if judgement else [])]
        self.particles: Array | None = None if cloud is None else cloud[0]
        self.log_weights: Array | None = None if cloud is None else cloud[1]
        self.weights: Array | None = None if cloud is None else np.exp(cloud[1])

    # ------------------------------------------------------------------ errors

    def _shaped(self, flat: Array | None) -> Any:
        return None if flat is None else self.model.unpack(flat)

    def _errors(self, flat: Array | None, covariance: Array | None = None) -> Any:
        scale = getattr(self.model, "scale", None)
        return self._shaped(flat) if flat is None or scale is None else scale.errors(self.theta_flat, flat, covariance)

    @property
    def mc_error(self) -> Any:
        """The Monte Carlo standard error of theta, in its shape; None: there is none, and `why_no_mc_error` says why."""
        return self._errors(self.judgement.mc_error, self.judgement.mc_covariance) if self.judgement else None

    @property
    def stderr(self) -> Any:
        """The statistical standard error of theta, in its shape; None: there is none, and `why_no_stderr` says why."""
        return self._errors(self.judgement.standard_error) if self.judgement else None

    @property
    def conf_int(self) -> tuple[Any, Any] | None:
        """A 95 % interval of theta from both errors; None where there is no statistical one."""
        j = self.judgement
        return (self._shaped(j.low), self._shaped(j.high)) if j and j.low is not None else None

    @property
    def why_no_mc_error(self) -> str:
        return self.judgement.why_no_mc_error if self.judgement else "the run was not judged"

    @property
    def why_no_stderr(self) -> str:
        return self.judgement.why_no_standard_error if self.judgement else "the run was not judged"

    @property
    def success(self) -> bool:
        """The run ended by itself, and its verdict is "converged"."""
        return not self.stopped and self.verdict == "converged"

    @property
    def message(self) -> str:
        """The verdict in words."""
        unit = "steps" if self.automatic else "iterations"
        words = f"stopped by {self.stopped} after {self.nit} {unit}; " if self.stopped else ""
        return words + self.verdict + (": " + "; ".join(self.reasons) if self.reasons else "")

    # ------------------------------------------------------------------ particles and trace

    def draws(self, n: int = 1000, seed: int = 0) -> Array:
        """n particles of equal weight, resampled by their weights; shape (n, dim_x)."""
        if self.particles is None or self.weights is None:
            raise ValueError("this run has no particles")
        rng = np.random.default_rng(seed)
        at = np.searchsorted(np.cumsum(self.weights), (np.arange(n) + rng.random()) / n * self.weights.sum())
        return self.particles[rng.permutation(np.minimum(at, len(self.weights) - 1))]

    def to_pandas(self) -> Any:
        """The trace as a pandas DataFrame."""
        return require("pandas").DataFrame(self.trace).set_index(next(iter(self.trace)))

    def to_arviz(self, n: int = 1000, seed: int = 0) -> Any:
        """An object of ArviZ: the group `posterior` has n resampled particles, `optimisation` the trace."""
        from ._arviz import to_arviz

        return to_arviz(self, n, seed)

    def plot(self) -> Any:
        """Draws theta with its band, the loss, the effective sample size and the particles, as the current figure of pyplot.

        Returns its axes, an array (2, 2); `axes[0, 0].figure` is the figure.
        """
        from ._plot import plot

        return plot(self)

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False, report: bool = True) -> None:
        """Writes a run folder: run.yaml, trace.csv, theta.npy, particles.npz, summary.json and report.html.

        `sosmc report FOLDER` and `sosmc.load_run(FOLDER)` read it.
        """
        from ._folder import save

        save(self, folder, overwrite, report)

    # ------------------------------------------------------------------ words

    def _rows(self) -> list[tuple[str, str, str, str, str]]:
        """The parameters, at most ten: name, estimate, Monte Carlo error, standard error, interval."""
        j, scale, rows = self.judgement or Judgement(), getattr(self.model, "scale", None), []
        names: list[str] = self.model.names
        columns: list[Array | None] = [self.theta_flat, j.mc_error, j.standard_error, j.low, j.high]
        if scale is not None:
            names, shaped = scale.names, (self.theta, self.mc_error, self.stderr, *(self.conf_int or (None, None)))
            columns = [None if value is None else scale.flat(value) for value in shaped]

        def at(column: int, k: int, digits: str) -> str:
            values = columns[column]
            return "" if values is None else f"{values[k]:{digits}}"

        for k, name in enumerate(names[:10]):
            interval = f"{at(3, k, '.5g')} to {at(4, k, '.5g')}" if columns[3] is not None else ""
            rows.append((name, at(0, k, ".6g"), at(1, k, ".3g"), at(2, k, ".3g"), interval))
        return rows

    def _numbers(self) -> list[tuple[str, str]]:
        told = [("objective", self.fun), ("log Z", self.logz), ("reward", self.reward), ("KL", self.kl)]
        return [(name, repr(n)) for name, n in told if np.isfinite(n.value) or n.why]

    def summary(self) -> str:
        """theta with its errors, the objective with its error, and the verdict, as a table."""
        head = ("", "estimate", "MC error", "std. error", "95 %")
        rows = [head, *self._rows()]
        widths = [max(len(r[k]) for r in rows) for k in range(5)]
        lines = ["  ".join([r[0].ljust(widths[0])] + [c.rjust(w) for c, w in zip(r[1:], widths[1:])]).rstrip() for r in rows]
        if len(self.theta_flat) > 10:
            lines.append(f"... {len(self.theta_flat) - 10} more")
        lines += [f"{name}: {value}" for name, value in self._numbers()]
        return "\n".join([*lines, f"verdict: {self.message}"])

    def __repr__(self) -> str:
        return f"<sosmc.Result: {self.message}>\n{self.summary()}"

    def _repr_html_(self) -> str:
        rows = "".join("<tr>" + "".join(f"<td>{escape(c)}</td>" for c in r) + "</tr>" for r in self._rows())
        more = f"<tr><td colspan=5>{len(self.theta_flat) - 10} more</td></tr>" if len(self.theta_flat) > 10 else ""
        numbers = "".join(f"<div>{escape(name)}: {escape(value)}</div>" for name, value in self._numbers())
        head = "<tr><th></th><th>estimate</th><th>MC error</th><th>std. error</th><th>95 %</th></tr>"
        return f"<div><table>{head}{rows}{more}</table>{numbers}<div><b>{escape(self.message)}</b></div></div>"
