"""Packages that only some users need: imported when they are first used, with the line that installs them where they are missing."""

from __future__ import annotations

import importlib
from typing import Any

_EXTRA = {"jax": "jax", "torch": "torch", "numpyro": "numpyro", "pymc": "pymc", "arviz": "arviz", "matplotlib": "plot",
          "pandas": "plot"}


def require(name: str, extra: str | None = None) -> Any:
    """The package `name`, or a ModuleNotFoundError that says how to get it."""
    top = name.split(".")[0]
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != top:
            raise
        extra = extra or _EXTRA[top]
        raise ModuleNotFoundError(f"this needs {top}, which is not installed: pip install 'sosmc[{extra}]'", name=top) from None
