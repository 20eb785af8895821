"""The examples in docstrings, in docs/python.md and in the README run and give what they say."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re

import pytest

import sosmc
from conftest import SOURCE

ADAPTERS = {"jax", "torch", "numpyro", "pymc"}
MODULES = sorted(m.name for m in pkgutil.iter_modules(sosmc.__path__) if not m.name.startswith("_") and m.name not in ADAPTERS)


@pytest.mark.parametrize("name", MODULES)
def test_doctests(name):
    found = doctest.testmod(importlib.import_module(f"sosmc.{name}"), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert found.failed == 0


@pytest.mark.parametrize("page", ["docs/python.md", "README.md"])
def test_pages(page, tmp_path, monkeypatch):
    """The Python blocks of a page run one after the other; those of optional packages only where they are installed."""
    text = (SOURCE / page).read_text()
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    ran = 0
    for block in re.findall(r"^```python\n(.*?)^```", text, re.M | re.S):
        optional = set(re.findall(r"^import (jax|torch|numpyro|pymc|arviz)", block, re.M)) or ("from_" in block and {"an adapter"})
        if optional or "# not run" in block:
            continue
        exec(compile(block, page, "exec"), names)
        ran += 1
    assert ran or page == "README.md"


def test_what_is_exported_is_there_and_explained():
    for name in sosmc.__all__:
        value = getattr(sosmc, name)
        if callable(value):
            assert (value.__doc__ or "").strip(), name
    assert "from_jax" in dir(sosmc) and "from_jax" not in sosmc.__all__  # a star imports no framework
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        sosmc.nonsense
    assert re.fullmatch(r"\d+\.\d+\.\d+", sosmc.__version__)
