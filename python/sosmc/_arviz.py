"""Results for ArviZ, of versions before 1.0 (InferenceData) and from 1.0 on (DataTree)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ._extras import require

if TYPE_CHECKING:
    from .result import Result


def _named(result: Result, draws: Any) -> Any:
    scale = getattr(result.model, "scale", None)
    if scale is not None:
        return scale.particles(result.theta_flat, draws)
    return result.model.unpack_x(draws) if result.model.unpack_x is not None else {"x": draws}


def to_arviz(result: Result, n: int, seed: int) -> Any:
    arviz, xarray = require("arviz"), require("xarray", extra="arviz")
    draws = result.draws(n, seed)
    named = _named(result, draws)
    posterior = {str(k): np.asarray(v)[None] for k, v in named.items()}  # one chain
    step = next(iter(result.trace))
    trace = xarray.Dataset({k: (step, v) for k, v in result.trace.items() if k != step}, coords={step: result.trace[step]})
    if hasattr(arviz, "InferenceData"):
        out = arviz.from_dict(posterior=posterior)
        out.add_groups({"optimisation": trace}, warn_on_custom_groups=False)
        return out
    tree = arviz.from_dict({"posterior": posterior})
    tree["optimisation"] = xarray.DataTree(trace)
    return tree
