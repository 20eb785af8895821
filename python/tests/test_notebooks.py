"""The notebooks run from the first cell to the last; their own assertions hold their numbers to what is known."""

from __future__ import annotations

import pathlib

import pytest

from frameworks import need

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "notebooks"
NEEDS = {"energy_model_jax": "jax", "empirical_bayes_numpyro": "numpyro", "reward_tuning_torch": "torch"}


def test_every_notebook_is_run():
    assert {path.stem for path in FOLDER.glob("*.ipynb")} == set(NEEDS)


@pytest.mark.parametrize("name", NEEDS)
def test_notebook(name):
    nbclient, nbformat = need("nbclient"), need("nbformat")
    need("matplotlib")
    need(NEEDS[name])
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    nbclient.NotebookClient(notebook, timeout=1200, kernel_name="python3", resources={"metadata": {"path": str(FOLDER)}}).execute()
