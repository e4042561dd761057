"""Checkpoints of training runs from `tests/peers/trained.py`, if they exist."""

import functools

import numpy as np

from .base_model import rounded
from .layout import checkpoint, split
from .packages import CACHE as ALL_CACHES
from .rounding import to_bytes

CACHE = ALL_CACHES / "trained"


def _as(name, dtype):
    """A saved checkpoint in a dtype; checkpoints saved in bfloat16 stay unchanged."""
    raw = (CACHE / f"{name}.safetensors").read_bytes()
    header, data = split(raw)
    tensors = []
    for key, tensor in header.items():
        begin, end = tensor["data_offsets"]
        if tensor["dtype"] == dtype:
            part = data[begin:end]
        else:
            part = to_bytes(np.frombuffer(data[begin:end], np.float32), dtype)
        tensors.append((key, dtype, tensor["shape"], part))
    return checkpoint(tensors)


def pairs():
    """Name of a checkpoint -> (its maker, maker of its base), for the runs that exist."""
    minilm = {dtype: functools.partial(rounded, dtype) for dtype in ("BF16", "F32")}
    # Name, saved checkpoint, saved base (None for the model before training), dtype.
    rows = [
        ("full120-bf16", "full-120", None, "BF16"),
        *((f"full240-{d.lower()}", "full-240", None, d) for d in ("BF16", "F32")),
        ("full240-on-120-bf16", "full-240", "full-120", "BF16"),
        *((f"full130-on-120-{d.lower()}", "full-130", "full-120", d) for d in ("BF16", "F32")),
        ("purebf16-bf16", "purebf16-120", None, "BF16"),
        *((f"lora{rank}-{d.lower()}", f"lora{rank}-{d.lower()}", None, d) for rank in (8, 16, 64) for d in ("BF16", "F32")),
        *((f"gpt410-on-400-{d.lower()}", "gpt-410", "gpt-400", d) for d in ("BF16", "F32")),
        ("gpt500-on-400-bf16", "gpt-500", "gpt-400", "BF16"),
    ]
    found = {}
    for name, saved, base, dtype in rows:
        if all((CACHE / f"{part}.safetensors").is_file() for part in (saved, base) if part):
            make_base = functools.partial(_as, base, dtype) if base else minilm[dtype]
            found[f"trained-{name}"] = (functools.partial(_as, saved, dtype), make_base)
    return found
