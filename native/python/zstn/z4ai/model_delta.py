"""Deltas between checkpoints, like the module ``z4ai.model_delta``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .. import _native
from .._checkpoint import pack, unpack
from . import _calls

MAGIC = b"Z4DM"


def peek_is_model_delta(blob: Any) -> bool:
    """Returns whether a buffer begins like a delta between checkpoints."""
    return bytes(blob[:4]) == MAGIC


def compress(target: Any, base: Any, *, level: int | None = None, threads: int = 0) -> bytes:
    """Compresses the safetensors file `target` as a delta from the safetensors file
    `base`."""
    return _calls.call(
        _native.model_delta_pack,
        _calls.as_bytes(target),
        _calls.as_bytes(base),
        _calls.effort_of(level),
        _calls.thread_count(threads),
    )


def decompress(blob: Any, base: Any) -> bytes:
    """Restores the safetensors file from its delta."""
    return _calls.call(
        _native.model_delta_unpack, _calls.as_bytes(blob), _calls.as_bytes(base), 0
    )


def compress_file(
    target_path: Any,
    base_path: Any,
    out_path: Any,
    *,
    level: int | None = None,
    threads: int = 0,
) -> dict[str, Any]:
    """Writes the delta between two files, with bounded memory."""
    _calls.refuse_other_formats(target_path)
    report = _calls.call(
        lambda: pack(
            Path(target_path),
            Path(out_path),
            base=Path(base_path),
            effort=_calls.effort_of(level),
            threads=_calls.thread_count(threads),
        )
    )
    return {
        "original": report.original_bytes,
        "stored": report.packed_bytes,
        "ratio": report.original_bytes / max(1, report.packed_bytes),
    }


def decompress_file(delta_path: Any, base_path: Any, out_path: Any) -> dict[str, Any]:
    """Restores a file from its delta, with bounded memory."""
    report = _calls.call(lambda: unpack(Path(delta_path), Path(out_path), base=Path(base_path)))
    return {"stored": report.packed_bytes, "restored": report.original_bytes}
