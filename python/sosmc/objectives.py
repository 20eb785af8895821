"""Objectives: what is minimised over theta."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable

import numpy as np

from ._calls import Array
from .model import Law


@dataclass(frozen=True)
class Objective:
    """What is minimised; made by `mmle`, `likelihood`, `reward` and `sampling`."""

    kind: str
    #: Keys of the objective in a run file.
    keys: dict[str, Any] = field(default_factory=dict)
    #: A function of Python, where the reward is one.
    score: Callable[[Array], Any] | None = None
    #: Points to fit or reference draws: an array or a law.
    data: Array | Law | None = None
    reference: Any = None


def mmle() -> Objective:
    """Minus the log of the marginal likelihood: l(theta) = -log int exp(-U_theta(x)) dx.

    With U_theta(x) = -log p_theta(x, y) this is maximum likelihood of theta with the latent x integrated out.
    """
    return Objective("mmle")


def likelihood(data: Any, batch: int = 0, *, batches: str = "random", energy2: float = 0.0,
               gradient_penalty: float = 0.0) -> Objective:
    """Minus the mean log-likelihood of data under pi_theta: training an energy model.

    data is an array (n, dim_x), a run-file value such as {"type": "two_moons"} or the name of a file, or a `sosmc.Law` that draws
    points. With `batch` so many points are drawn in every iteration ("random", or "epochs": every point once before any comes
    again); 0 takes all of them. energy2 adds so many times the mean of U^2, which keeps the level of the energy near 0;
    gradient_penalty, for `sosmc.models.mlp`, so many times the mean of (|dU/dx| - 1)^2 over the data.
    """
    keys: dict[str, Any] = {}
    if batch:
        keys["batch"] = int(batch)
    if batches != "random":
        keys["batches"] = batches
    if energy2:
        keys["energy2"] = float(energy2)
    if gradient_penalty:
        keys["gradient_penalty"] = float(gradient_penalty)
    if isinstance(data, (str, dict)):
        return Objective("ebm_likelihood", {"data": data, **keys})
    if isinstance(data, Law):
        if not batch:
            raise ValueError("data that are drawn need a batch, the number of points per iteration")
        return Objective("ebm_likelihood", keys, data=data)
    return Objective("ebm_likelihood", keys, data=points(data, "data"))


def reward(R: Any, beta: float = 0.0, *, kl: str = "reverse", reference: Any = None, batch: int | None = None,
           ramp: int = 0) -> Objective:
    """A reward, held to a reference: l(theta) = -E[R(x)] + beta KL.

    R is a function of x, shape (n, dim_x), that returns n numbers; a formula such as "(x1 >= 0) * exp(-x2^2)"; or a run-file value
    such as {"type": "half_plane", "normal": [1, 0]}. kl="reverse" is KL(pi_theta || pi_ref), with the reference
    pi_ref = pi_theta at `reference`, in the shape of theta (None: theta0). kl="forward" is KL(pi_ref || pi_theta), with `reference`
    an array of draws of pi_ref or a `sosmc.Law`, of which `batch` are taken in every iteration; built-in models that can be
    drawn exactly also take a theta, or None for theta0. With `ramp` the reward comes in gradually, over so many updates.
    """
    if kl not in ("reverse", "forward"):
        raise ValueError(f'kl is {kl!r}; expected "reverse" or "forward"')
    if not (callable(R) or isinstance(R, (str, dict))):
        raise TypeError(f"R is {type(R).__name__}; expected a function of x, a formula or a mapping")
    keys: dict[str, Any] = {"beta": float(beta)}
    if ramp:
        keys["ramp"] = int(ramp)
    if batch is not None:
        keys["reference"] = {"batch": int(batch)}
    if not callable(R):
        keys["reward"] = R
    return Objective(f"reward_{kl}", keys, score=R if callable(R) else None, reference=reference)


def sampling(score: Any = None) -> Objective:
    """Nothing is minimised: theta stays, the particles sample pi_theta0, and the mean of `score`, if any, is told."""
    if score is None or isinstance(score, (str, dict)):
        return Objective("none", {} if score is None else {"reward": score})
    if not callable(score):
        raise TypeError(f"score is {type(score).__name__}; expected a function of x, a formula or a mapping")
    return Objective("none", score=score)


def points(value: Any, name: str) -> Array:
    """An array of points, looked at; a copy of its own, in C order."""
    array = np.array(value, dtype=np.float64, order="C", copy=True)
    if array.ndim == 1:
        array = array.reshape(-1, 1)
    if array.ndim != 2 or array.shape[0] < 1:
        raise ValueError(f"{name} has shape {np.shape(value)}; expected (n, dim_x), one point per row")
    if not np.all(np.isfinite(array)):
        raise ValueError(f"{name} has values that are not finite")
    return array
