"""The examples in the docstrings of the adapters and in docs/python-frameworks.md run, where what they import is installed."""

from __future__ import annotations

import doctest
import importlib
import re

import pytest

from conftest import SOURCE
from frameworks import need

PAGE = (SOURCE / "docs" / "python-frameworks.md").read_text()
BLOCKS = {re.search(r"sosmc\.(from_\w+)", block).group(1): block for block in re.findall(r"^```python\n(.*?)^```", PAGE, re.M | re.S)}


@pytest.mark.parametrize("name", ["jax", "numpyro", "pymc", "torch"])
def test_doctests(name):
    need(name)
    assert doctest.testmod(importlib.import_module(f"sosmc.{name}"), optionflags=doctest.NORMALIZE_WHITESPACE).failed == 0


@pytest.mark.parametrize("name", ["from_jax", "from_numpyro", "from_pymc", "from_torch"])
def test_the_page(name, tmp_path, monkeypatch):
    need(name.removeprefix("from_"))
    monkeypatch.chdir(tmp_path)
    exec(compile(BLOCKS[name], "docs/python-frameworks.md", "exec"), {})
