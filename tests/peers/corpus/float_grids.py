"""Weights rounded to small floats, or to a table of values times a scale, and dequantised again.

Every function takes a float32 matrix and returns one of the same shape.
"""

import numpy as np

from .rounding import e2m1, e4m3

# The 16 values of NF4: quantiles of a normal distribution, as defined by bitsandbytes.
NF4 = np.array(
    [
        -1.0,
        -0.6961928009986877,
        -0.5250730514526367,
        -0.39491748809814453,
        -0.28444138169288635,
        -0.18477343022823334,
        -0.09105003625154495,
        0.0,
        0.07958029955625534,
        0.16093020141124725,
        0.24611230194568634,
        0.33791524171829224,
        0.44070982933044434,
        0.5626170039176941,
        0.7229568362236023,
        1.0,
    ],
    dtype=np.float32,
)


def _largest(groups):
    largest = np.abs(groups).max(axis=-1, keepdims=True)
    return np.where(largest == 0, np.float32(1), largest)


def nf4(values, width):
    """bitsandbytes: the scale of a group is its largest magnitude, and each value is rounded to the nearest of 16."""
    groups = values.reshape(-1, width)
    scale = _largest(groups)
    between = (NF4[1:] + NF4[:-1]) / 2
    return (NF4[np.searchsorted(between, groups / scale)] * scale).reshape(values.shape)


def fp8_blocks(values, height, width):
    """DeepSeek: float8 e4m3 with one scale per block of a matrix; blocks at the edges may be smaller."""
    out = np.empty_like(values)
    for top in range(0, values.shape[0], height):
        for left in range(0, values.shape[1], width):
            block = values[top : top + height, left : left + width]
            scale = np.float32(np.abs(block).max() / np.float32(448)) or np.float32(1)
            out[top : top + height, left : left + width] = e4m3(block / scale) * scale
    return out


def nvfp4(values, width):
    """NVFP4: e2m1 times a float8 scale per group times a float32 scale of the tensor."""
    groups = values.reshape(-1, width)
    overall = np.float32(np.abs(values).max() / np.float32(6 * 448)) or np.float32(1)
    scale = e4m3(_largest(groups) / np.float32(6) / overall) * overall
    scale = np.where(scale == 0, np.float32(1), scale)
    return (e2m1(groups / scale) * scale).reshape(values.shape)


def mxfp4(values, width):
    """MXFP4 of the OCP specification: e2m1 times a power of two per group."""
    groups = values.reshape(-1, width)
    _, exponent = np.frexp(_largest(groups))
    scale = np.ldexp(np.float32(1), exponent - 1 - 2)
    return (e2m1(groups / scale) * scale).reshape(values.shape)
