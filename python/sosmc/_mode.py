"""Whether a potential has a minimum: a descent that either arrives or shows that the density grows without bound.

A probabilistic program can have an infinite density (a hierarchy written in its centred form whose scale is latent: all effects equal,
scale zero). Such a program has no mode, its integral may exist all the same, and no cloud of particles finds its way there: it is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ._calls import Array

Slope = Callable[[Array], tuple[float, Array]]

FAR = 200.0  # a coordinate on the unconstrained scale that got as far as this has run away
STEPS, MEMORY, LARGEST_HESSIAN = 400, 10, 400


@dataclass
class Descent:
    x: Array
    value: float
    slope: Array
    broke: bool  # the potential fell to minus infinity, or x has run away


def descend(f: Slope, x: Array, tolerance: float) -> Descent:
    """L-BFGS with steps that are halved until the value falls enough."""
    value, slope = f(x)
    pairs: list[tuple[Array, Array]] = []
    for _ in range(STEPS):
        if np.max(np.abs(slope)) < tolerance * (1 + abs(value)):
            return Descent(x, value, slope, False)
        step = _direction(slope, pairs)
        if step @ slope > -1e-14 * abs(step) @ abs(slope):
            pairs, step = [], -slope
        found = _line(f, x, value, slope, step if pairs else step / max(1.0, float(np.max(np.abs(step)))))
        if found is None:
            return Descent(x, value, slope, False)
        new, new_value, new_slope = found
        pairs = [*pairs, (new - x, new_slope - slope)][-MEMORY:]
        pairs = [(s, y) for s, y in pairs if s @ y > 0]
        x, value, slope = new, new_value, new_slope
        if value == -np.inf or np.max(np.abs(x)) > FAR:
            return Descent(x, value, slope, True)
    return Descent(x, value, slope, False)


def _direction(slope: Array, pairs: list[tuple[Array, Array]]) -> Array:
    q, used = slope.copy(), []
    for s, y in reversed(pairs):
        a = (s @ q) / (s @ y)
        used.append(a)
        q -= a * y
    if pairs:
        s, y = pairs[-1]
        q *= (s @ y) / (y @ y)
    for (s, y), a in zip(pairs, reversed(used)):
        q += s * (a - (y @ q) / (s @ y))
    return -q


def _line(f: Slope, x: Array, value: float, slope: Array, step: Array
          ) -> tuple[Array, float, Array] | None:
    along = float(step @ slope)
    for _ in range(40):
        new = x + step
        new_value, new_slope = f(new)
        if new_value == -np.inf or (new_value <= value + 1e-4 * along and new_value < value and np.all(np.isfinite(new_slope))):
            return new, new_value, new_slope
        step, along = step / 2, along / 2
    return None


def unbounded(end: Descent, hessian: Callable[[Array], Array], eps: float) -> bool:
    """Whether the density has no bound where the descent ended: it ran away, or it stuck in a spike that is narrower than the
    arithmetic resolves and that is no minimum."""
    if end.broke:
        return True
    if end.x.size > LARGEST_HESSIAN:
        return False
    H = np.asarray(hessian(end.x), dtype=np.float64)
    if not np.all(np.isfinite(H)):
        return True
    curvature, axes = np.linalg.eigh((H + H.T) / 2)
    narrow = curvature[-1] > 0 and 1 / np.sqrt(curvature[-1]) < np.sqrt(eps) * (1 + np.max(np.abs(end.x)))
    if not narrow:
        return False
    along = axes.T @ end.slope
    return bool(curvature[0] <= 0 or 0.5 * float(np.sum(along**2 / curvature)) > 0.1)
