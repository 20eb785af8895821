#!/usr/bin/env python3
"""torch_weights.py IN OUT.safetensors [--network TEXT | --activation NAME] [--part KEY]: weights of PyTorch (.pt, .ckpt) for sosmc.

IN is read by PyTorch with weights_only=True, so nothing in it is executed. A checkpoint's weights are its state_dict or
model_state_dict; --part names another entry. OUT says what stands between the layers: --network (default where there are
convolutions: the digits of the paper) or --activation (default: silu)."""
import argparse
import json
import math
import struct

DIGITS = ("1x28x28; conv 16 5 stride 2 pad 4 silu; conv 32 3 stride 2 pad 1 silu; conv 64 3 stride 2 pad 1 silu; "
          "conv 64 3 stride 2 pad 1 silu; dense 64 silu; dense 1; energy -1")


def weights_of(stored, part=None):
    """The dict of tensors in what a file holds."""
    keys = [part] if part else [key for key in ("state_dict", "model_state_dict") if key in stored]
    if part and part not in stored:
        raise ValueError(f"there is no entry '{part}'; expected one of {', '.join(map(str, stored))}")
    return stored[keys[0]] if keys else stored


def safetensors_of(weights, network=None, activation=None):
    """The bytes of a safetensors file from a dict of NumPy arrays, whose names and shapes stay as they are."""
    header, data, convolutions = {"__metadata__": {"format": "pt"}}, b"", False
    for name, array in weights.items():
        shape = list(getattr(array, "shape", [None]))
        if shape == [None] or array.dtype.kind != "f":
            found = type(array).__name__ if shape == [None] else f"{array.dtype} of shape {shape}"
            raise ValueError(f"'{name}' is {found}; expected a tensor of floating-point numbers")
        numbers = array.astype("<f4")
        if not all(map(math.isfinite, numbers.ravel().tolist())):
            raise ValueError(f"tensor '{name}' of shape {shape} holds a number that is not finite in 32 bits")
        convolutions |= len(shape) == 4
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + numbers.nbytes]}
        data += numbers.tobytes()
    if network or (convolutions and not activation):
        header["__metadata__"]["sosmc.network"] = network or DIGITS
    else:
        header["__metadata__"]["sosmc.activation"] = activation or "silu"
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("out")
    parser.add_argument("--part")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--network")
    kind.add_argument("--activation", choices=("silu", "softplus", "tanh"))
    options = parser.parse_args()
    import torch

    try:
        weights = weights_of(torch.load(options.file, map_location="cpu", weights_only=True), options.part)
        arrays = {name: t.detach().numpy() if torch.is_tensor(t) else t for name, t in weights.items()}
        content = safetensors_of(arrays, options.network, options.activation)
    except Exception as error:
        raise SystemExit(f"torch_weights.py: {options.file}: {error}") from None
    with open(options.out, "wb") as file:
        file.write(content)


if __name__ == "__main__":
    main()
