"""Synthetic fine-tunes of `minilm-bf16`, which differ in how many weights change and by how
much."""

import numpy as np

from .base_model import floats
from .layout import checkpoint, split
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


def _tensors(file):
    """The tensors of a safetensors file as (name, dtype, shape, bytes)."""
    header, data = split(file)
    return [(name, t["dtype"], t["shape"], data[slice(*t["data_offsets"])]) for name, t in header.items()]


def _with_rows(tensor, change):
    name, dtype, shape, raw = tensor
    rows = change(np.frombuffer(raw, np.uint16).reshape(shape))
    return name, dtype, rows.shape, rows.tobytes()


def relatives(seed=SEED, rows_more=128):
    """Name -> maker: the fine-tune of which 2 % of the weights changed, with other names and order, with more rows of
    the vocabulary, and with 512 fewer."""
    # The first of `fine_tunes`, without the others.
    tuned = lambda: _tensors(_nudged(np.random.default_rng(seed), 0.02))
    new = lambda rows: np.random.default_rng(seed).permuted(rows[:rows_more], axis=1)
    changed = lambda change: checkpoint(
        [_with_rows(tensor, change) if "word_embeddings" in tensor[0] else tensor for tensor in tuned()]
    )
    return {
        "minilm-renamed-bf16": lambda: checkpoint([(f"bert.{name}", *rest) for name, *rest in reversed(tuned())]),
        "minilm-grown-bf16": lambda: changed(lambda rows: np.concatenate([rows, new(rows)])),
        "minilm-cut-bf16": lambda: changed(lambda rows: rows[:-512]),
    }
