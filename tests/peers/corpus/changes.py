"""Synthetic fine-tunes of `minilm-bf16`, which differ in how many weights change and by how
much."""

import numpy as np

from .base_model import floats
from .layout import checkpoint
from .rounding import bf16

SEED = 7
FINE_TUNES = ("minilm-ft2-bf16", "minilm-ft20-bf16", "minilm-ftall-bf16")


def _nudged(random, share):
    """Changes a share of the weights by up to three steps of bfloat16."""
    tensors = []
    for name, values in floats().items():
        bits = bf16(values).reshape(-1).copy()
        moved = random.random(bits.size) < share
        steps = random.integers(-3, 4, moved.sum())
        bits[moved] = (bits[moved].astype(np.int32) + steps).astype(np.uint16)
        tensors.append((name, "BF16", values.shape, bits.tobytes()))
    return checkpoint(tensors)


def _drifted(random):
    """Changes every weight by about a thousandth of the mean magnitude, and rounds the result."""
    tensors = []
    for name, values in floats().items():
        noise = random.standard_normal(values.shape).astype(np.float32)
        moved = values + 1e-3 * np.abs(values).mean() * noise
        tensors.append((name, "BF16", values.shape, bf16(moved).tobytes()))
    return checkpoint(tensors)


def fine_tunes(seed=SEED):
    """Fine-tunes of `minilm-bf16` in which 2 % of the weights, 20 % of them, or all of them
    change."""
    random = np.random.default_rng(seed)
    made = (_nudged(random, 0.02), _nudged(random, 0.2), _drifted(random))
    return dict(zip(FINE_TUNES, made, strict=True))
