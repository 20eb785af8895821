"""Results: theta with its errors, the objective with its error, and a verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ._c import ffi, lib
from ._calls import Array
from ._errors import text

_VERDICTS = {0: "converged", 1: "not converged", 2: "failed"}


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
            return f"Number(none: {self.why})" if self.why else "Number(none)"
        return f"{self.value:.6g} +- {self.error:.2g}" if np.isfinite(self.error) else f"{self.value:.6g} (no error: {self.why})"


def _number(c: Any) -> Number:
    return Number(float(c.value), float(c.error), text(c.why))


class Judgement:
    """What a run is worth, as the library judged it."""

    def __init__(self, c: Any) -> None:
        p = int(c.dim_theta)

        def take(pointer: Any) -> Array | None:
            return np.frombuffer(ffi.buffer(pointer, 8 * p)).copy() if pointer != ffi.NULL else None

        self.verdict = _VERDICTS[int(c.verdict.status)]
        self.reasons = [text(c.verdict.reason[i]) for i in range(c.verdict.reasons)]
        self.theta = take(c.theta)
        self.mc_error, self.standard_error = take(c.theta_mc_error), take(c.theta_standard_error)
        self.low, self.high = take(c.theta_low), take(c.theta_high)
        self.why_no_mc_error, self.why_no_standard_error = text(c.why_no_mc_error), text(c.why_no_standard_error)
        self.loss, self.log_z, self.kl, self.reward = _number(c.loss), _number(c.log_z), _number(c.kl), _number(c.reward)
        self.aic, self.bic, self.rows = float(c.aic), float(c.bic), int(c.rows)


class Result:
    """What a run found.

    theta, theta_flat
        The estimate, in the shape of theta0 and as a flat vector.
    mc_error, stderr
        Its Monte Carlo standard error and, for likelihoods, its statistical one, in the same shape; None where there is none, and
        `why_no_mc_error` and `why_no_stderr` say why.
    fun, logz, kl, reward
        The objective at theta, log Z and so on: numbers with their standard errors (`result.fun.value`, `result.fun.error`).
    verdict, reasons
        "converged", "not converged" or "failed", and sentences that say why.
    success, message, nit
        Whether the run ended by itself and converged; the verdict in a sentence; the number of iterations.
    trace
        A dict of arrays, one number for every iteration, under the names of trace.csv.
    particles, weights
        The last particles (N, dim_x) and their weights, which sum to 1.
    settings
        The resolved run file, as YAML text.
    """

    def __init__(self, *, model: Any, settings: str, judgement: Judgement | None, theta_flat: Array, trace: dict[str, Array],
                 cloud: tuple[Array, Array] | None, iterations: int, stopped: str = "", automatic: bool = False,
                 why_no_loss: str = "", hash: int = 0, objective: str = "") -> None:
        self.model, self.settings, self.judgement = model, settings, judgement
        self.last_theta = model.unpack(theta_flat)
        flat = judgement.theta if judgement is not None and judgement.theta is not None else theta_flat
        self.theta_flat = np.array(flat)
        self.theta = model.unpack(self.theta_flat)
        self.trace, self.nit, self.automatic, self.hash, self.objective = trace, iterations, automatic, hash, objective
        self.why_no_loss, self.stopped = why_no_loss, stopped
        none = Number(float("nan"), float("nan"), "the run was not judged")
        self.fun = judgement.loss if judgement else none
        self.logz = judgement.log_z if judgement else none
        self.kl = judgement.kl if judgement else none
        self.reward = judgement.reward if judgement else none
        self.verdict = judgement.verdict if judgement else "not judged"
        self.reasons = list(judgement.reasons) if judgement else []
        self.particles, self.weights = (None, None) if cloud is None else (cloud[0], np.exp(cloud[1]))
        self.log_weights = None if cloud is None else cloud[1]

    def _shaped(self, flat: Array | None) -> Any:
        return None if flat is None else self.model.unpack(flat)

    @property
    def mc_error(self) -> Any:
        return self._shaped(self.judgement.mc_error if self.judgement else None)

    @property
    def stderr(self) -> Any:
        return self._shaped(self.judgement.standard_error if self.judgement else None)

    @property
    def why_no_mc_error(self) -> str:
        return self.judgement.why_no_mc_error if self.judgement else "the run was not judged"

    @property
    def why_no_stderr(self) -> str:
        return self.judgement.why_no_standard_error if self.judgement else "the run was not judged"

    @property
    def success(self) -> bool:
        return not self.stopped and self.verdict == "converged"

    @property
    def message(self) -> str:
        words = f"stopped by {self.stopped} after {self.nit} {'steps' if self.automatic else 'iterations'}; " if self.stopped else ""
        return words + self.verdict + (": " + " ".join(self.reasons) if self.reasons else "")


_ = lib
