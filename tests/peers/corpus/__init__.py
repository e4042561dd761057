"""Checkpoints for measurements: one real model in several representations, and other real models.

`models()` returns name -> maker, and a maker returns the bytes of a safetensors file. Most checkpoints derive from
the fp32 weights of all-MiniLM-L6-v2 and from fixed seeds. `differences()` returns the checkpoints that have a base.
"""

import functools

from . import merges, published, quantised, trained
from .adapters import merged
from .base_model import minilm, rounded
from .changes import FINE_TUNES, SEED, fine_tunes, relatives
from .layout import checkpoint, split
from .plain import as_shipped, gaussian, half_precision_in_float32, pruned, tied
from .rounding import bf16

__all__ = [
    *("SEED", "bf16", "checkpoint", "differences", "fine_tunes", "merged_models", "minilm", "models", "split"),
    "variants",
]


def variants():
    """Name -> maker of every checkpoint that derives from the one model, except for the fine-tunes."""
    return {
        "minilm-bf16": lambda: rounded("BF16"),
        "minilm-f16": lambda: rounded("F16"),
        "minilm-f32": as_shipped,
        "minilm-f16inf32": half_precision_in_float32,
        **quantised.FIRST,
        "minilm-sparse50-bf16": lambda: rounded("BF16", pruned),
        "minilm-tied-bf16": tied,
        "gauss-bf16": lambda: gaussian("BF16"),
        "gauss-f32": lambda: gaussian("F32"),
    }


def models():
    """Name -> maker of `variants()`, other types of quantised weights, and other real models, which are downloaded."""
    real = {name: make for name, make in published.models().items() if name in published.BY_THEMSELVES}
    return {**variants(), **quantised.MORE, **real}


def differences(seed=SEED):
    """Name -> (maker, maker of its base): synthetic fine-tunes and their relatives, merged adapters, real pairs, and
    training runs."""
    base = {dtype: lambda dtype=dtype: rounded(dtype) for dtype in ("BF16", "F32")}
    made = {name: (lambda name=name: fine_tunes(seed)[name], base["BF16"]) for name in FINE_TUNES}
    for rank, dtype in ((8, "BF16"), (16, "BF16"), (64, "BF16"), (16, "F32")):
        make = lambda rank=rank, dtype=dtype: merged(rank, dtype, seed)
        made[f"minilm-lora{rank}-{dtype.lower()}"] = (make, base[dtype])
    made |= {name: (make, base["BF16"]) for name, make in relatives(seed).items()}
    return {**made, **published.pairs(), **trained.pairs()}


def merged_models(seed=SEED):
    """Name -> maker of a merge and of its sources, the nearest of them first."""
    tuned = functools.cache(lambda: [fine_tunes(seed + number)[FINE_TUNES[-1]] for number in range(2)])

    def arithmetic():
        sources = [rounded("BF16"), *tuned()]
        return merges.task_arithmetic(*sources, (0.7, 0.5), "BF16"), [*sources[1:], sources[0]]

    return {
        "minilm-linear-bf16": lambda: (merges.linear(*tuned(), 0.4, "BF16"), tuned()),
        "minilm-slerp-bf16": lambda: (merges.spherical(*tuned(), 0.4, "BF16"), tuned()),
        "minilm-arithmetic-bf16": arithmetic,
    }
