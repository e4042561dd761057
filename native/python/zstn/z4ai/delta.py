"""Deltas between buffers, like the module ``z4ai.delta``."""

from __future__ import annotations

from typing import Any

from .. import _native
from . import _calls, codec

__all__ = ["MAGIC", "compress", "decompress", "peek_is_delta"]

MAGIC = b"Z4DL"


def peek_is_delta(blob: Any) -> bool:
    """Returns whether a buffer begins like a delta."""
    return bytes(blob[:4]) == MAGIC


def compress(
    current: Any,
    reference: Any,
    *,
    dtype: str | None = None,
    level: int | None = None,
    threads: int = 0,
) -> bytes:
    """Compresses `current` as a delta from `reference`, which must have the same
    length."""
    codec.width_for_dtype(dtype)
    return _calls.call(
        _native.compress_delta,
        _memory(current),
        _memory(reference),
        dtype if dtype is None else dtype.lower(),
        _calls.effort_of(level),
        _calls.thread_count(threads),
    )


def decompress(blob: Any, reference: Any, *, out: Any = None) -> Any:
    """Restores a buffer from its delta; returns it, or `out` filled with it."""
    result = _calls.call(_native.decompress_delta, memoryview(blob), _memory(reference), 0)
    return _calls.into(result, out)


def _memory(data: Any) -> Any:
    return _calls.array_memory(data) if _calls.is_array(data) else _calls.as_bytes(data)
