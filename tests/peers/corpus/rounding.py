"""Converts float32 values to the bits of a narrower dtype, and to the nearest values of a small
float."""

import ml_dtypes
import numpy as np


def bf16(values):
    """The nearest bfloat16, ties to even, as 16-bit patterns."""
    bits = values.astype(np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + ((bits >> 16) & 1) + 0x7FFF) >> 16).astype(np.uint16)


def f16(values):
    """The nearest float16, ties to even, as 16-bit patterns."""
    return values.astype(np.float16).view(np.uint16)


def to_bytes(values, dtype):
    """The values as the bytes of "BF16", "F16" or "F32" elements."""
    if dtype == "F32":
        return values.astype(np.float32).tobytes()
    return {"BF16": bf16, "F16": f16}[dtype](values).tobytes()


def from_bf16(bits):
    """The float32 values of bfloat16 patterns."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def nearest(values, dtype):
    """The nearest values of "BF16", "F16" or "F32", as float32."""
    if dtype == "BF16":
        return from_bf16(bf16(values))
    return values.astype({"F16": np.float16, "F32": np.float32}[dtype]).astype(np.float32)


def e4m3(values):
    """The nearest float8 e4m3fn, as float32; the largest is 448."""
    return np.clip(values, -448, 448).astype(ml_dtypes.float8_e4m3fn).astype(np.float32)


def e2m1(values):
    """The nearest of 0, 0.5, 1, 1.5, 2, 3, 4 and 6, with the original sign, as float32."""
    return np.clip(values, -6, 6).astype(ml_dtypes.float4_e2m1fn).astype(np.float32)
