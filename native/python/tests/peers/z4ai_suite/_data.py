"""A replacement for `benchmarks/_data.py`, which the tests of z4ai import but its
package does not contain: random weights."""

from __future__ import annotations

import numpy as np

_BYTES = {"bf16": 2, "fp16": 2, "fp32": 4, "fp64": 8}


def bytes_per_element(dtype: str) -> int:
    return _BYTES[dtype]


def f32_to_bf16_bytes(values) -> bytes:
    """Rounds to the nearest bfloat16, with ties to even."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return rounded.astype("<u2").tobytes()


def _stored(values: np.ndarray, dtype: str) -> bytes:
    if dtype == "bf16":
        return f32_to_bf16_bytes(values)
    return values.astype({"fp16": "<f2", "fp32": "<f4", "fp64": "<f8"}[dtype]).tobytes()


def make_weights(n_elem: int, dtype: str = "bf16", seed: int = 0) -> bytes:
    """Returns normally distributed weights, like the initial weights of layers."""
    random = np.random.default_rng(seed)
    kind = np.float64 if dtype == "fp64" else np.float32
    return _stored((random.standard_normal(n_elem) * 0.02).astype(kind), dtype)


def make_scenario(name: str, n_elem: int, dtype: str = "bf16", seed: int = 0) -> bytes:
    """Returns weights without a structure (``"iid"``), or a block of weights that is
    repeated (``"structured"``)."""
    if name == "iid":
        return make_weights(n_elem, dtype, seed)
    block = make_weights(max(1, n_elem // 16), dtype, seed)
    length = n_elem * bytes_per_element(dtype)
    return (block * (length // len(block) + 1))[:length]
