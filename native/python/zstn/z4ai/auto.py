"""``ZARA`` frames, like the module ``z4ai.auto``."""

from __future__ import annotations

from typing import Any

from .. import _native
from . import _calls, codec

MAGIC = b"ZARA"
VERSION = 1

_FORMATS = {
    "bf16": "bfloat16",
    "bfloat16": "bfloat16",
    "fp16": "float16",
    "float16": "float16",
    "fp32": "float32",
    "float32": "float32",
}


def compress(data: Any, *, dtype: str | None = None, effort: str = "max") -> bytes:
    """Compresses a buffer or an array to a ``ZARA`` frame."""
    array = data if _calls.is_array(data) else None
    if array is not None:
        data, width = _calls.array_memory(array), array.dtype.itemsize
        format = _FORMATS.get(array.dtype.name)
    else:
        width = codec._WIDTHS.get(dtype, 1)
        format = _FORMATS.get(dtype.lower()) if isinstance(dtype, str) else None
    frame = _calls.call(
        _native.compress_auto, data, width, format, _calls.effort_of(None, effort), 0
    )
    return frame if array is None else codec.described(frame, array)


def decompress(blob: Any, *, out: Any = None) -> bytes:
    """Returns the decoded content of a frame, and copies it to `out`."""
    result = codec.decompress(blob)
    _calls.into(result, out)
    return result


decompress_array = codec.decompress_ndarray
