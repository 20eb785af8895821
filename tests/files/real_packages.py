"""real_packages.py VERB FOLDER: the other side of test_tensors.c (write, check) and test_model_file.c (write_network,
check_network), with the real NumPy and safetensors packages.

write  makes files that the C reader must load; both sides know theta of the model: number i is sin(i) / 3 as float32.
check  loads what the C writer left in FOLDER; any difference in value, type, shape or metadata ends with an error.
The verbs with _network do the same with a picture network that has a convolution.
"""

import json
import math
import os
import struct
import sys

import numpy as np
import safetensors
from safetensors.numpy import load_file, save_file

WIDTHS = [2, 5, 3, 1]
PERCEPTRON = [((outputs, inputs), (outputs,)) for inputs, outputs in zip(WIDTHS, WIDTHS[1:])]
NETWORK = [((3, 2, 3, 3), (3,)), ((2, 18), (2,)), ((1, 2), (1,))]
DESCRIPTION = "2x5x4; conv 3 3 stride 2 pad 1 silu; dense 2 tanh; dense 1; energy -1; base 1.5"


def layers(shapes=PERCEPTRON):
    """Weights and biases in the order of theta."""
    i = 0
    for pair in shapes:
        both = []
        for shape in pair:
            n = math.prod(shape)
            both.append(np.array([math.sin(k) / 3 for k in range(i, i + n)], dtype=np.float32).reshape(shape))
            i += n
        yield both


def finite_patterns():
    """All finite numbers of 16 bits, as half precision and as bfloat16, with their values in float32."""
    bits = np.arange(65536, dtype=np.uint16)
    half = bits[(bits >> 10 & 31) != 31]
    brain = bits[(bits >> 7 & 255) != 255]
    return half.view(np.float16), brain, (brain.astype(np.uint32) << 16).view(np.float32)


def specification(a, dtype):
    """What safetensors.serialize takes: NumPy has no bfloat16, which therefore goes in as bytes. Older versions take a
    dictionary; newer ones point at the array, which the caller keeps alive."""
    if hasattr(safetensors, "TensorSpec"):
        return safetensors.TensorSpec(dtype=dtype, shape=a.shape, data_ptr=a.ctypes.data, data_len=a.nbytes)
    return {"dtype": dtype, "shape": a.shape, "data": a.tobytes()}


def write(folder):
    state = {}
    for k, (weight, bias) in enumerate(layers()):
        state[f"net.{2 * k}.weight"] = weight
        state[f"net.{2 * k}.bias"] = bias
    notes = {"format": "pt", "sosmc.activation": "tanh", "sosmc.base_sd": "2.5", "note": 'quotes " and \u00e9'}
    save_file(state, os.path.join(folder, "sequential.safetensors"), metadata=notes)
    save_file({k: v.astype(np.float64) for k, v in state.items()}, os.path.join(folder, "double.safetensors"))
    listed = {k.replace("net.", "layers."): v for k, v in state.items()}
    save_file(listed, os.path.join(folder, "layers.safetensors"), metadata={"format": "pt"})
    underscored = {}
    for k, (weight, bias) in enumerate(layers(), start=1):
        underscored |= {f"layer{k}_weight": weight, f"layer{k}_bias": bias}
    np.savez(os.path.join(folder, "plain.npz"), **underscored)
    np.savez_compressed(os.path.join(folder, "packed.npz"), **{k: v.astype(np.float64) for k, v in underscored.items()})

    half, brain, brain_values = finite_patterns()
    kinds = {"half": half, "half_values": half.astype(np.float32), "brain_values": brain_values}
    kinds |= {"scalar": np.full((), 0.5, np.float32), "empty": np.zeros((3, 0), np.float32)}
    kinds["cube"] = np.arange(24, dtype=np.float64).reshape(2, 3, 4)
    raw = {k: specification(a, a.dtype.name) for k, a in kinds.items()}
    raw["brain"] = specification(brain, "bfloat16")
    with open(os.path.join(folder, "kinds.safetensors"), "wb") as file:
        file.write(safetensors.serialize(raw))


def same(a, b):
    assert a.dtype == b.dtype == np.float32 and a.shape == b.shape and a.tobytes() == b.tobytes(), (a, b)


def check_model(found, separator, shapes=PERCEPTRON):
    names = [f"layer{k + 1}{separator}{word}" for k in range(len(shapes)) for word in ("weight", "bias")]
    assert sorted(found) == sorted(names), list(found)
    for name, expected in zip(names, (a for pair in layers(shapes) for a in pair)):
        same(found[name], expected)


def check(folder):
    notes = {"format": "pt", "sosmc.activation": "softplus", "sosmc.base_sd": "0.1"}
    path = os.path.join(folder, "ours.safetensors")
    check_model(load_file(path), ".")
    with safetensors.safe_open(path, framework="numpy") as file:
        assert file.metadata() == notes, file.metadata()
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = file.read(length)
    assert length % 8 == 0 and header.startswith(b"{"), header

    with np.load(os.path.join(folder, "ours.npz")) as archive:
        found = dict(archive)
    assert json.loads(bytes(found.pop("__metadata__"))) == notes
    check_model(found, "_")

    odd = load_file(os.path.join(folder, "odd.safetensors"))
    assert sorted(odd) == ["cube \u00e9 \"x\"", "empty", "scalar"], list(odd)
    same(odd["cube \u00e9 \"x\""], np.arange(24, dtype=np.float32).reshape(2, 3, 1, 4))
    same(odd["scalar"], np.full((), -0.0, np.float32))
    same(odd["empty"], np.zeros((0, 7), np.float32))


def named(stems, separator="."):
    return {s + separator + w: a for s, pair in zip(stems, layers(NETWORK)) for w, a in zip(("weight", "bias"), pair)}


def write_network(folder):
    notes = {"format": "pt", "sosmc.network": DESCRIPTION}
    save_file(named(["layer1", "layer2", "layer3"]), os.path.join(folder, "described.safetensors"), metadata=notes)
    tutorial = named(["cnn_layers.0", "cnn_layers.9", "cnn_layers.11"])
    save_file(tutorial, os.path.join(folder, "tutorial.safetensors"))
    np.savez(os.path.join(folder, "published.npz"), **named(["conv1", "fc1", "fc2"], "_"))


def check_network(folder):
    notes = {"format": "pt", "sosmc.network": DESCRIPTION}
    path = os.path.join(folder, "network.safetensors")
    check_model(load_file(path), ".", NETWORK)
    with safetensors.safe_open(path, framework="numpy") as file:
        assert file.metadata() == notes, file.metadata()
    with np.load(os.path.join(folder, "network.npz")) as archive:
        found = dict(archive)
    assert json.loads(bytes(found.pop("__metadata__"))) == notes
    check_model(found, "_", NETWORK)


if __name__ == "__main__":
    verbs = {"write": write, "check": check, "write_network": write_network, "check_network": check_network}
    verbs[sys.argv[1]](sys.argv[2])
