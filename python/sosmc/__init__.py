"""Stochastic optimisation via sequential Monte Carlo.

    model  = sosmc.Model(energy, grad_theta, theta0=..., dim_x=2)
    result = sosmc.minimize(model, sosmc.mmle())

`minimize` alone gives an answer with its errors and a verdict; keywords, which are the keys of run files, choose how a run is done.
"""

from __future__ import annotations

from typing import Any

from . import _calls as _calls
from ._c import lib as _lib
from ._errors import FileError, ModelError, NumericError, SettingError, SosmcError, text as _text
from . import models as models
from .api import Sampler, iterate, minimize
from .check import Check, check
from .files import Run, load_run, run_file
from .model import WHOLE, Law, Model
from .objectives import Objective, likelihood, mmle, reward, sampling
from .result import Number, Result

__version__ = _text(_lib.sosmc_version())

__all__ = [
    "WHOLE", "Check", "FileError", "Law", "Model", "ModelError", "Number", "NumericError", "Objective", "Result", "Run", "Sampler", "SettingError",
    "SosmcError", "check", "iterate", "keep_memory", "likelihood",
    "load_run", "minimize", "mmle", "models", "reward", "run_file", "sampling",
]

#: Adapters and the modules that hold them; each is imported when it is first used.
_ADAPTERS = {"from_jax": "jax", "from_torch": "torch", "from_numpyro": "numpyro", "from_pymc": "pymc"}


def __getattr__(name: str) -> Any:
    if name not in _ADAPTERS:
        raise AttributeError(f"module 'sosmc' has no attribute {name!r}")
    import importlib

    extra = _ADAPTERS[name]
    try:
        module = importlib.import_module(f".{extra}", __name__)
    except ModuleNotFoundError as e:
        if (e.name or "").startswith("sosmc"):
            raise
        raise ModuleNotFoundError(f"sosmc.{name} needs {e.name}: pip install 'sosmc[{extra}]'", name=e.name) from None
    return getattr(module, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_ADAPTERS])


def keep_memory() -> bool:
    """Keeps freed memory for the next array instead of giving it back to the system, for the whole process.

    NumPy functions of models that make large temporary arrays are then up to six times as fast. False: the C library has no
    such thing.
    """
    return bool(_lib.binding_keep_memory())
