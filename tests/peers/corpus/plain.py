"""The real model as published, pruned, and with tied weights; and independent normally distributed values."""

import numpy as np

from .base_model import floats, minilm, rounded
from .changes import SEED
from .layout import checkpoint
from .rounding import bf16


def as_shipped():
    """All tensors as they are in the package, including the integer tensor."""
    return checkpoint(
        [(n, "F32" if v.dtype == np.float32 else "I64", v.shape, v.tobytes()) for n, v in minilm().items()]
    )


def pruned(values):
    """Sets the smaller half of the weights of a matrix to zero."""
    if values.ndim < 2:
        return values
    return np.where(np.abs(values) < np.median(np.abs(values)), np.float32(0), values)


def tied():
    """The model with its word embeddings twice, as in models that also predict words."""
    tensors = [(name, "BF16", v.shape, bf16(v).tobytes()) for name, v in floats().items()]
    embedding = next(t for t in tensors if "word_embeddings" in t[0])
    return checkpoint([*tensors, ("lm_head.weight", *embedding[1:])])


def half_precision_in_float32():
    return rounded("F32", lambda values: values.astype(np.float16))


def gaussian(dtype):
    values = (np.random.default_rng(SEED).standard_normal(1 << 24) * 0.02).astype(np.float32)
    if dtype == "F32":
        return checkpoint([("w", "F32", (2048, 4096), values[: 1 << 23].tobytes())])
    return checkpoint([("w", "BF16", (4096, 4096), bf16(values).tobytes())])
