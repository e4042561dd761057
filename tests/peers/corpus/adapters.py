"""The base model with low-rank adapters merged into its matrices; the factors are random.

The weights are W + alpha/r · B·A with alpha = 2r. A has the uniform distribution with which PEFT initialises it. B,
which training would fill, has normally distributed values whose standard deviation decreases from column to column. B
is scaled so that the norm of the change is `CHANGE` times the norm of W.
"""

import numpy as np

from .base_model import floats
from .changes import SEED
from .layout import checkpoint
from .rounding import nearest, to_bytes

CHANGE = 0.01
# Standard deviation of the last column of B, relative to the first.
DECAY = 0.1


def _change(random, shape, rank):
    """alpha/r · B·A for an m × k matrix, before scaling. It is computed in float64, so that the summation order
    hardly matters."""
    m, k = shape
    a = random.uniform(-1, 1, (rank, k)).astype(np.float32) / np.float32(np.sqrt(k))
    b = random.standard_normal((m, rank)).astype(np.float32) * np.geomspace(1, DECAY, rank, dtype=np.float32)
    return 2 * b.astype(np.float64) @ a.astype(np.float64)


def _is_linear(name, values):
    return values.ndim == 2 and "embeddings" not in name


def merged(rank, dtype, seed=SEED):
    """Merges as PEFT does on a CPU: the change is rounded to the dtype of the model, and so is the sum."""
    random = np.random.default_rng([seed, rank])
    tensors = []
    for name, values in floats().items():
        weight = nearest(values, dtype)
        if _is_linear(name, values):
            change = _change(random, values.shape, rank)
            change *= CHANGE * np.linalg.norm(values.astype(np.float64)) / np.linalg.norm(change)
            weight = weight + nearest(change.astype(np.float32), dtype)
        tensors.append((name, dtype, values.shape, to_bytes(weight, dtype)))
    return checkpoint(tensors)
