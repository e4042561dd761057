"""Fine-tunes of `minilm-bf16` made by arithmetic: which weights move, and how far."""

import numpy as np

from .base_model import floats
from .layout import checkpoint
from .rounding import bf16

SEED = 7
FINE_TUNES = ("minilm-ft2-bf16", "minilm-ft20-bf16", "minilm-ftall-bf16")


def _nudged(random, share):
    """A share of the weights moved by up to three steps of bfloat16."""
    tensors = []
    for name, values in floats().items():
        bits = bf16(values).reshape(-1).copy()
        moved = random.random(bits.size) < share
        steps = random.integers(-3, 4, moved.sum())
        bits[moved] = (bits[moved].astype(np.int32) + steps).astype(np.uint16)
        tensors.append((name, "BF16", values.shape, bits.tobytes()))
    return checkpoint(tensors)


def _drifted(random):
    """Every weight moved by a thousandth of the mean magnitude, then rounded."""
    tensors = []
    for name, values in floats().items():
        noise = random.standard_normal(values.shape).astype(np.float32)
        moved = values + 1e-3 * np.abs(values).mean() * noise
        tensors.append((name, "BF16", values.shape, bf16(moved).tobytes()))
    return checkpoint(tensors)


def fine_tunes(seed=SEED):
    """Fine-tunes of `minilm-bf16`: 2 % and 20 % of the weights changed, and all of them a little."""
    random = np.random.default_rng(seed)
    made = (_nudged(random, 0.02), _nudged(random, 0.2), _drifted(random))
    return dict(zip(FINE_TUNES, made, strict=True))
