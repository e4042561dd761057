"""Merges of fine-tunes, computed in NumPy as merging tools compute them.

Each function takes safetensors files with tensors of the same names and shapes, and returns one. Values are read as
float32, and the results are rounded once, to `dtype`.
"""

import numpy as np

from .layout import checkpoint, split
from .rounding import from_bf16, nearest, to_bytes

# Tensors with a smaller angle between them, in radians, are averaged linearly.
PARALLEL = 1e-4


def values(file):
    """Name -> float32 array of a safetensors file of BF16, F16 and F32."""
    read = {
        "BF16": lambda raw: from_bf16(np.frombuffer(raw, np.uint16)),
        "F16": lambda raw: np.frombuffer(raw, np.float16).astype(np.float32),
        "F32": lambda raw: np.frombuffer(raw, np.float32),
    }
    header, data = split(file)
    return {
        name: read[tensor["dtype"]](data[slice(*tensor["data_offsets"])]).reshape(tensor["shape"])
        for name, tensor in header.items()
    }


def _merged(merge, files, dtype):
    """Merges tensor by tensor, in the order of the first file."""
    first, *others = map(values, files)
    made = ((name, merge(array, *(other[name] for other in others))) for name, array in first.items())
    return checkpoint([(name, dtype, array.shape, to_bytes(array, dtype)) for name, array in made])


def linear(a, b, share, dtype):
    """(1 − share)·a + share·b."""
    return _merged(lambda a, b: np.float32(1 - share) * a + np.float32(share) * b, [a, b], dtype)


def linear_in_bf16(a, b, share):
    """The same with weights, products and sum in bfloat16."""
    bf16 = lambda array: nearest(np.asarray(array, np.float32), "BF16")
    return _merged(lambda a, b: bf16(bf16(1 - share) * a) + bf16(bf16(share) * b), [a, b], "BF16")


def spherical(a, b, share, dtype):
    """The point at `share` of the arc from a to b, with an angle for each tensor."""

    def merge(a, b):
        wide_a, wide_b = a.astype(np.float64).reshape(-1), b.astype(np.float64).reshape(-1)
        norms = np.linalg.norm(wide_a) * np.linalg.norm(wide_b)
        angle = np.arccos(np.clip(wide_a @ wide_b / norms, -1, 1)) if norms else 0
        parts = 1 - share, share
        if angle > PARALLEL:
            parts = np.sin((1 - share) * angle) / np.sin(angle), np.sin(share * angle) / np.sin(angle)
        return np.float32(parts[0]) * a + np.float32(parts[1]) * b

    return _merged(merge, [a, b], dtype)


def task_arithmetic(base, a, b, shares, dtype):
    """The base plus shares of the changes that two fine-tunes made."""
    of_a, of_b = map(np.float32, shares)
    return _merged(lambda base, a, b: base + (of_a * (a - base) + of_b * (b - base)), [base, a, b], dtype)
