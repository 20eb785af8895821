"""Models with known answers, for all tests."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

import sosmc

SOURCE = Path(__file__).resolve().parents[2]
Y = np.array([1.0, -2.0])


def energy(theta, x):
    p, q = x - theta, x - Y
    return 0.5 * (p * p + q * q).sum(1), p + q


def grad_theta(theta, x, c):
    return c.sum() * theta - c @ x


@pytest.fixture
def pair():
    """x ~ N(theta, I), y | x ~ N(x, I) in the plane: the best theta is y, and log Z there is log pi."""
    return sosmc.Model(energy, grad_theta, theta0=np.zeros(2), dim_x=2)


@pytest.fixture
def program():
    """The program `sosmc`, which the environment names, or which was installed with the package."""
    path = os.environ.get("SOSMC_PROGRAM") or shutil.which("sosmc")
    if not path or not Path(path).exists():
        pytest.skip("the program sosmc is not there (SOSMC_PROGRAM names it)")
    return path
