"""The models that come with the library: machine code, so `threads` may be more than 1.

They are the models of run files, with the same keys, and a run of one of them has the same bits as `sosmc run`.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from ._keys import Job, RunFile
from .model import Model, Shape


class BuiltIn(Model):
    """A model of the library, described by the keys that `model` has in a run file."""

    def __init__(self, keys: dict[str, Any], *, scalar: bool = False, init: Any = None, keep: Any = None) -> None:
        job = Job(RunFile({"model": keys, "objective": "none"}))
        c = job.problem.model
        self.keys, self.name, self.init, self.log_z = keys, str(keys["type"]), init, True
        self.dim_x, self.dim_theta, self.tile, self.rows = int(c.dim_x), int(c.dim_theta), int(c.tile), 0
        self.machine_code, self.gradient, self.rounding = True, not c.no_gx, float(c.rounding)
        self.flat_theta, self.theta_views, self.shares_forward, self.writable_views = False, True, False, False
        self.unpack_x = None
        self.names = job.theta_names() if self.dim_theta <= 10000 else [f"theta_{k + 1}" for k in range(self.dim_theta)]
        self.theta0 = np.array([job.problem.theta0[k] for k in range(self.dim_theta)])
        self.shape = Shape(float(self.theta0[0]) if scalar else self.theta0)
        self._pack, self._unpack = self.shape.pack, self.shape.unpack
        self._keep = keep


def from_keys(**keys: Any) -> BuiltIn:
    """Any model of a run file, from the keys that `model` has there: from_keys(type="gaussian_mixture", means=[[-1], [1]])."""
    return BuiltIn(keys)


def mixture(means: Any, theta0: Any = None, *, variance: float = 1.0, eps: float = 0.0) -> BuiltIn:
    """A mixture of Gaussians with fixed means, one per row, and a common variance; its weights are the softmax of theta.

    >>> import sosmc
    >>> m = sosmc.models.mixture([[-3.0, 0.0], [3.0, 0.0]], variance=0.5)
    >>> m.dim_x, m.dim_theta
    (2, 2)
    """
    array = np.atleast_2d(np.asarray(means, dtype=np.float64))
    keys: dict[str, Any] = {"type": "gaussian_mixture", "means": array.tolist(), "variance": float(variance), "eps": float(eps)}
    if theta0 is not None:
        keys["theta"] = np.asarray(theta0, dtype=np.float64).reshape(-1).tolist()
    return BuiltIn(keys)


def hierarchical(y: Any, theta0: float = 0.0) -> BuiltIn:
    """x_d ~ N(theta, 1), y_d | x_d ~ N(x_d, 1): every answer is known in closed form; the best theta is the mean of y."""
    return BuiltIn({"type": "hierarchical_gaussian", "y": np.asarray(y, dtype=np.float64).reshape(-1).tolist(),
                    "theta": [float(theta0)]}, scalar=True)


def logistic_regression(features: Any, labels: Any, theta0: float = 0.0, *, prior_variance: float = 5.0) -> BuiltIn:
    """Bayesian logistic regression whose coefficients have the prior N(theta, prior_variance); labels are 0 and 1."""
    x, y = np.asarray(features, dtype=np.float64), np.asarray(labels, dtype=np.float64).reshape(-1)
    if x.ndim != 2 or len(x) != len(y):
        raise ValueError(f"features has shape {x.shape} and labels has {len(y)} numbers; expected (n, d) and n")
    if not np.all((y == 0) | (y == 1)):
        raise ValueError("labels has values other than 0 and 1")
    folder = tempfile.TemporaryDirectory(prefix="sosmc-")
    path = Path(folder.name) / "data.csv"
    head = ",".join(["label"] + [f"f{k + 1}" for k in range(x.shape[1])])
    np.savetxt(path, np.column_stack([y, x]), fmt="%.17g", delimiter=",", header=head, comments="")
    keys = {"type": "logistic_regression", "data": str(path), "label": "label", "standardise": False, "theta": [float(theta0)],
            "prior_variance": float(prior_variance)}
    return BuiltIn(keys, scalar=True, keep=folder)


def mlp(inputs: int = 2, hidden: Any = (128, 128, 128, 128), **keys: Any) -> BuiltIn:
    """An energy that is a multi-layer perceptron; further keys are those of `model` in a run file (activation, base, ...)."""
    return BuiltIn({"type": "mlp", "inputs": int(inputs), "hidden": [int(h) for h in hidden], **keys})


def network(layers: str, **keys: Any) -> BuiltIn:
    """An energy of pictures, convolutions and dense layers, such as "1x28x28; conv 16 5 stride 2 pad 4 swish; dense 1"."""
    return BuiltIn({"type": "network", "layers": layers, **keys})


def stored(file: str, **keys: Any) -> BuiltIn:
    """A network from a file of weights, safetensors or NPZ in PyTorch's layout."""
    return BuiltIn({"type": "stored", "file": str(file), **keys})


def deblur(picture: Any, noise: float, **keys: Any) -> BuiltIn:
    """A blurred, noisy picture (a file, or an array of rows and columns) whose total-variation prior learns its strength."""
    folder = None
    if not isinstance(picture, (str, Path)):
        folder = tempfile.TemporaryDirectory(prefix="sosmc-")
        np.save(Path(folder.name) / "picture.npy", np.asarray(picture, dtype=np.float64))
        picture = Path(folder.name) / "picture.npy"
    return BuiltIn({"type": "deblur", "picture": str(picture), "noise": float(noise), **keys}, scalar=True, keep=folder)

