"""``ZPL1`` frames, like the module ``z4ai.palette``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import sparse

__all__ = [
    "MAGIC",
    "compress",
    "decompress",
    "peek_is_palette",
    "read_numpy_metadata",
    "should_use",
    "supported_width",
]

MAGIC = b"ZPL1"


def supported_width(width: int) -> bool:
    return width in (2, 4, 8)


def should_use(raw: Any, width: int, max_distinct: int = 256) -> bool:
    """Returns whether there are at most `max_distinct` different values."""
    import numpy as np

    if not supported_width(width) or len(raw) < width:
        return False
    elements = np.frombuffer(raw, f"<u{width}", len(raw) // width)
    return np.unique(elements).size <= max_distinct


def peek_is_palette(blob: Any) -> bool:
    return bytes(blob[:4]) == MAGIC


def compress(
    raw: Any,
    width: int,
    *,
    level: int = 1,
    is_numpy: bool = False,
    np_dtype: str = "",
    shape: Sequence[int] = (),
) -> bytes:
    """Compresses elements of `width` bytes with at most 65536 different values; `level`
    has no effect."""
    return sparse._compress("palette", supported_width, raw, width, is_numpy, np_dtype, shape)


def decompress(blob: Any) -> bytes:
    """Returns the decoded content of a frame."""
    return sparse._decompress(blob, MAGIC)


def read_numpy_metadata(blob: Any) -> tuple[str, tuple[int, ...]] | None:
    """Returns dtype and shape of the array in a frame."""
    return sparse._metadata(blob, MAGIC)
