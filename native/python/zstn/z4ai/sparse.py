"""``ZSP1`` frames, like the module ``z4ai.sparse``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import _native
from . import _calls

__all__ = [
    "MAGIC",
    "compress",
    "decompress",
    "peek_is_sparse",
    "read_numpy_metadata",
    "should_use",
    "sparsity",
    "supported_width",
]

MAGIC = b"ZSP1"


def supported_width(width: int) -> bool:
    return width in (1, 2, 4, 8)


def sparsity(raw: Any, width: int) -> float:
    """Returns the share of elements that are all zero bytes."""
    import numpy as np

    if not supported_width(width) or len(raw) < width:
        return 0.0
    elements = np.frombuffer(raw, f"<u{width}", len(raw) // width)
    return float(1 - np.count_nonzero(elements) / elements.size)


def should_use(raw: Any, width: int, threshold: float = 0.10) -> bool:
    return len(raw) >= width and sparsity(raw, width) >= threshold


def peek_is_sparse(blob: Any) -> bool:
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
    """Compresses elements of `width` bytes; `level` has no effect."""
    return _compress("sparse", supported_width, raw, width, is_numpy, np_dtype, shape)


def _compress(
    family: str,
    supported: Any,
    raw: Any,
    width: int,
    is_numpy: bool,
    dtype: str,
    shape: Sequence[int],
) -> bytes:
    if not supported(width):
        raise ValueError(f"{family} codec does not support width {width}")
    frame = _calls.call(_native.compress_as, family, memoryview(raw), width, 1, 0)
    if frame is None:
        raise ValueError(f"{family} codec: too many distinct values")
    if not is_numpy:
        return frame
    return _calls.call(_native.describe_frame, frame, dtype, list(shape))


def decompress(blob: Any) -> bytes:
    """Returns the decoded content of a frame."""
    return _decompress(blob, MAGIC)


def _decompress(blob: Any, magic: bytes) -> bytes:
    if bytes(blob[: len(magic)]) != magic:
        raise _calls.Z4aiError(f"not a {magic.decode()} frame (bad magic)", "malformed")
    return _calls.call(_native.decompress, memoryview(blob), 0)


def read_numpy_metadata(blob: Any) -> tuple[str, tuple[int, ...]] | None:
    """Returns dtype and shape of the array in a frame."""
    return _metadata(blob, MAGIC)


def _metadata(blob: Any, magic: bytes) -> tuple[str, tuple[int, ...]] | None:
    if bytes(blob[:4]) != magic:
        raise _calls.Z4aiError(f"not a {magic.decode()} frame (bad magic)", "malformed")
    _, _, array = _calls.call(_native.inspect_frame, memoryview(blob))
    return None if array is None else (array[0], tuple(array[1]))
