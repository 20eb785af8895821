"""tools/torch_weights.py: weights that PyTorch stored, as a file that sosmc reads."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import sosmc
from frameworks import need

SCRIPT = Path(__file__).parents[2] / "tools" / "torch_weights.py"
_spec = importlib.util.spec_from_file_location("torch_weights", SCRIPT)
torch_weights = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(torch_weights)

# The names of the two sources: a Sequential of linear layers, and the digits network of the tutorial.
PLANE = {"net.0": (5, 2), "net.2": (4, 5), "net.4": (1, 4)}
DIGITS = {"0": (16, 1, 5, 5), "2": (32, 16, 3, 3), "4": (64, 32, 3, 3), "6": (64, 64, 3, 3), "9": (64, 256), "11": (1, 64)}


def arrays(layers: dict, seed: int = 0) -> dict:
    rng = np.random.default_rng(seed)
    made = {}
    for name, shape in layers.items():
        made[f"{name}.weight"] = (rng.normal(size=shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)
        made[f"{name}.bias"] = rng.normal(size=shape[0]).astype(np.float32)
    return made


def theta_read(file: Path) -> np.ndarray:
    """theta of a run of the file's network that nothing has moved yet."""
    sampler = sosmc.Sampler(sosmc.models.stored(file), sosmc.reward(lambda x: x[:, 0], beta=1.0), kernel="ula", iterations=1, particles=4)
    return np.ravel(sampler.theta)


def expect_read(file: Path, w: dict) -> None:
    """Convolutions come first, then layers in the order of their numbers: weight, bias."""
    assert np.array_equal(theta_read(file), np.concatenate([t.ravel() for t in w.values()]).astype(float))


@pytest.mark.parametrize("layers", [PLANE, DIGITS])
def test_every_number_arrives(tmp_path, layers):
    w = arrays(layers)
    backwards = dict(reversed(w.items()))  # the order in the file says nothing
    (tmp_path / "w.safetensors").write_bytes(torch_weights.safetensors_of(backwards))
    expect_read(tmp_path / "w.safetensors", w)


def test_what_stands_between_the_layers():
    def metadata(*arguments):
        text = torch_weights.safetensors_of(*arguments)
        return torch_weights.json.loads(text[8 : 8 + int.from_bytes(text[:8], "little")])["__metadata__"]

    assert metadata(arrays(PLANE)) == {"format": "pt", "sosmc.activation": "silu"}
    assert metadata(arrays(PLANE), None, "tanh") == {"format": "pt", "sosmc.activation": "tanh"}
    assert metadata(arrays(DIGITS)) == {"format": "pt", "sosmc.network": torch_weights.DIGITS}


def test_the_entry_of_a_checkpoint():
    w = arrays(PLANE)
    assert torch_weights.weights_of({"epoch": 59, "state_dict": w}) is w
    assert torch_weights.weights_of({"model_state_dict": w, "replay_buffer": 0}) is w
    assert torch_weights.weights_of({"sosmc_state_dict": w}, "sosmc_state_dict") is w
    assert torch_weights.weights_of(w) is w
    with pytest.raises(ValueError, match="there is no entry 'theirs'; expected one of epoch, state_dict"):
        torch_weights.weights_of({"epoch": 59, "state_dict": w}, "theirs")


@pytest.mark.parametrize(
    "wrong, words",
    [
        ({"epoch": 59}, "'epoch' is int; expected a tensor"),
        ({"steps": np.arange(3)}, r"'steps' is int64 of shape \[3\]; expected"),
        ({"a.weight": np.array([[1e300]])}, r"tensor 'a.weight' of shape \[1, 1\] holds a number that is not finite"),
    ],
)
def test_what_is_refused(wrong, words):
    with np.errstate(over="ignore"), pytest.raises(ValueError, match=words):
        torch_weights.safetensors_of(wrong)


def test_a_network_of_another_shape_is_refused_when_it_is_read(tmp_path):
    w = arrays({**DIGITS, "2": (32, 16, 5, 5)})
    (tmp_path / "w.safetensors").write_bytes(torch_weights.safetensors_of(w))
    with pytest.raises(sosmc.SosmcError, match="'2.weight' .* has shape 32x16x5x5, but layer 2 of the network asks for 32x16x3x3"):
        theta_read(tmp_path / "w.safetensors")


@pytest.mark.parametrize("modern", [True, False])
def test_a_file_of_torch(tmp_path, modern):
    torch = need("torch")
    w = arrays(PLANE)
    stored = {"epoch": 5, "model_state_dict": {name: torch.from_numpy(t) for name, t in w.items()}}
    torch.save(stored, tmp_path / "latest.pt", _use_new_zipfile_serialization=modern)
    subprocess.run([sys.executable, SCRIPT, tmp_path / "latest.pt", tmp_path / "circles.safetensors"], check=True)
    expect_read(tmp_path / "circles.safetensors", w)


class Code:
    def __reduce__(self):
        return print, ("executed",)


def test_code_in_a_file_is_not_executed(tmp_path):
    torch = need("torch")
    torch.save({"state_dict": {"a": torch.zeros(1)}, "hyper": Code()}, tmp_path / "bad.pt")
    run = subprocess.run([sys.executable, SCRIPT, tmp_path / "bad.pt", tmp_path / "out"], capture_output=True, text=True)
    assert run.returncode == 1 and "executed" not in run.stdout and "bad.pt" in run.stderr
    assert not (tmp_path / "out").exists()
