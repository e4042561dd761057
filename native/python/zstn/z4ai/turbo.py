"""``ZRT1`` frames, like the module ``z4ai.turbo``."""

from __future__ import annotations

from typing import Any

from .. import _native
from . import _calls, sparse

MAGIC = b"ZRT1"
DEFAULT_LEVEL = 3


def compress(
    data: Any, *, width: int = 1, level: int = DEFAULT_LEVEL, workers: int | None = None
) -> bytes:
    """Compresses a buffer either unchanged or split into byte planes of elements of
    `width` bytes, whichever is smaller; `level` has no effect."""
    if width < 1:
        raise ValueError("width must be >= 1")
    threads = _calls.thread_count(workers)
    widths = {1, min(width, 255)}
    frames = [
        _calls.call(_native.compress_as, "turbo", memoryview(data), each, 1, threads)
        for each in sorted(widths)
    ]
    return min(frames, key=len)


def decompress(blob: Any, *, workers: int | None = None) -> bytes:
    """Returns the decoded content of a frame."""
    return sparse._decompress(blob, MAGIC)
