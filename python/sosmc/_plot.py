"""Figures of a result, by matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ._extras import require

if TYPE_CHECKING:
    from .result import Result

MOST_LINES = 10


def plot(result: Result) -> Any:
    figure, axes = require("matplotlib.pyplot").subplots(2, 2, figsize=(10, 7), layout="constrained")
    _theta(result, axes[0, 0])
    _line(result, axes[0, 1], "loss", "loss" + ("" if result.automatic else " (running estimate)"))
    _line(result, axes[1, 0], "ess", "effective sample size")
    _cloud(result, axes[1, 1])
    figure.suptitle(result.message, fontsize="medium")
    return axes


def _steps(result: Result) -> Any:
    return next(iter(result.trace.values()))


def _theta(result: Result, axes: Any) -> None:
    names = [name for name in result.trace if name.startswith("theta")][:MOST_LINES]
    j = result.judgement
    for k, name in enumerate(names):
        label = result.model.names[k] if name != "theta_norm" else "norm of theta"
        (line,) = axes.plot(_steps(result), result.trace[name], label=label)
        if j is not None and name != "theta_norm":
            axes.axhline(result.theta_flat[k], color=line.get_color(), linewidth=0.8, linestyle="--")
        if j is not None and j.mc_error is not None and name != "theta_norm":
            band = 1.96 * j.mc_error[k]
            axes.axhspan(result.theta_flat[k] - band, result.theta_flat[k] + band, color=line.get_color(), alpha=0.2)
    axes.set_title("theta, with the estimate and its Monte Carlo error")
    axes.set_xlabel("step" if result.automatic else "iteration")
    if names:
        axes.legend(fontsize="small")


def _line(result: Result, axes: Any, name: str, title: str) -> None:
    axes.plot(_steps(result), result.trace[name])
    axes.set_title(title)
    axes.set_xlabel("step" if result.automatic else "iteration")


def _cloud(result: Result, axes: Any) -> None:
    axes.set_title("particles")
    if result.particles is None or result.weights is None:
        return
    x, w = result.particles, result.weights
    if x.shape[1] == 1:
        axes.hist(x[:, 0], bins=50, weights=w)
        return
    axes.scatter(x[:, 0], x[:, 1], s=np.clip(4 * len(w) * w, 0.2, 40), alpha=0.5, linewidths=0)
    axes.set_xlabel("x1")
    axes.set_ylabel("x2")
