"""``Z4AIMF01`` frames, like the module ``z4ai.chunked``."""

from __future__ import annotations

from typing import Any

from .. import _native
from . import _calls, codec, sparse

MAGIC = b"Z4AIMF01"
DEFAULT_CHUNK_SIZE = 2 << 20
DEFAULT_LEVEL = 1


def compress(
    data: Any,
    *,
    dtype: str | None = None,
    level: int | None = None,
    threads: int = 0,
    chunk_size: int = DEFAULT_CHUNK_SIZE,
) -> bytes:
    """Compresses a buffer in chunks; `level` has no effect."""
    width = codec.width_for_dtype(dtype)
    chunk_bytes = max(1, min(chunk_size, 0xFFFF_FFFF))
    threads = _calls.thread_count(threads)
    return _calls.call(
        _native.compress_as, "chunked", memoryview(data), width, chunk_bytes, threads
    )


def is_chunked(blob: Any) -> bool:
    return bytes(blob[:8]) == MAGIC


def decompress(blob: Any, *, threads: int = 0) -> bytes:
    """Returns the decoded content of a frame."""
    return sparse._decompress(blob, MAGIC)
