"""Weights rounded to small integers times a scale, and dequantised again.

Every function takes a float32 matrix and returns one of the same shape. Only `symmetric` returns negative zeros,
where it rounds a small negative weight. The others use integers, which have no negative zero.
"""

import numpy as np

from .rounding import nearest


def _groups(values, width):
    """A view with the groups of a row along the last axis."""
    return values.reshape(*values.shape[:-1], -1, width)


def _positive(scale):
    return np.where(scale == 0, np.float32(1), scale).astype(np.float32)


def symmetric(values, bits, axis=-1):
    """One scale per row (axis -1) or for the whole tensor (None), which maps the largest magnitude to the largest
    integer."""
    scale = np.abs(values).max(axis=axis, keepdims=axis is not None) / (2 ** (bits - 1) - 1)
    scale = _positive(scale)
    return (np.round(values / scale) * scale).astype(np.float32)


def symmetric_groups(values, bits, width):
    """One float16 scale per group of a row, which maps the largest magnitude to the largest integer."""
    groups = _groups(values, width)
    largest = 2 ** (bits - 1) - 1
    scale = nearest(_positive(np.abs(groups).max(axis=-1, keepdims=True) / np.float32(largest)), "F16")
    integers = np.clip(np.round(groups / scale), -largest, largest).astype(np.int32)
    return (integers.astype(np.float32) * scale).reshape(values.shape)


def asymmetric_groups(values, bits, width):
    """GPTQ and AWQ with zero points: the range of a group goes from its minimum to its maximum and includes zero;
    scales are float16."""
    groups = _groups(values, width)
    steps = 2**bits - 1
    least = np.minimum(groups.min(axis=-1, keepdims=True), 0)
    most = np.maximum(groups.max(axis=-1, keepdims=True), 0)
    scale = nearest(_positive((most - least) / np.float32(steps)), "F16")
    zero = np.clip(np.round(-least / scale), 0, steps)
    integers = (np.clip(np.round(groups / scale) + zero, 0, steps) - zero).astype(np.int32)
    return (integers.astype(np.float32) * scale).reshape(values.shape)


def ternary(values):
    """BitNet: -1, 0 and 1 times the mean magnitude of the tensor."""
    scale = np.abs(values).mean(dtype=np.float64).astype(np.float32)
    integers = np.clip(np.round(values / scale), -1, 1).astype(np.int32)
    return integers.astype(np.float32) * scale
