"""Single buffers and arrays, like the module ``z4ai.codec``."""

from __future__ import annotations

from typing import Any

from .. import _native
from . import _calls

DEFAULT_LEVEL = 1
DEFAULT_ESCALATE_LEVEL = None

_WIDTHS: dict[str | None, int] = {
    **dict.fromkeys((None, "uint8", "u8", "int8", "i8", "fp8_e4m3", "fp8_e5m2"), 1),
    **dict.fromkeys(("fp16", "float16", "bf16", "bfloat16", "int16", "uint16"), 2),
    **dict.fromkeys(("fp32", "float32", "int32", "uint32"), 4),
    **dict.fromkeys(("fp64", "float64", "int64", "uint64"), 8),
}


def width_for_dtype(dtype: str | None) -> int:
    """Returns the number of bytes of an element."""
    key = dtype.lower() if isinstance(dtype, str) else dtype
    if key not in _WIDTHS:
        known = ", ".join(name for name in _WIDTHS if name)
        raise ValueError(f"unknown dtype code {dtype!r}; known: {known}")
    return _WIDTHS[key]


def compress(
    data: Any,
    *,
    dtype: str | None = None,
    width: int | None = None,
    level: int | None = None,
    escalate_level: int | None = DEFAULT_ESCALATE_LEVEL,
    threads: int = 0,
    plane_workers: int = 1,
    auto: bool = True,
    rans: bool = True,
) -> bytes:
    """Compresses a buffer or an array. `level` selects an effort; with ``auto=False``
    the result is a ``Z4AI`` frame. `escalate_level`, `plane_workers` and `rans` have no
    effect."""
    array = data if _calls.is_array(data) else None
    if array is not None:
        dtype = dtype if dtype is not None else _calls.array_dtype(array)
        data = _calls.array_memory(array)
    else:
        data = _memory(data)
    if dtype is None and width is not None:
        dtype = {2: "uint16", 4: "uint32", 8: "uint64"}.get(width)
    width_for_dtype(dtype)
    frame = _calls.call(
        _native.compress,
        data,
        dtype if dtype is None else dtype.lower(),
        _calls.effort_of(level),
        "container" if auto else "plain",
        _calls.thread_count(threads),
    )
    return frame if array is None else described(frame, array)


def _memory(data: Any) -> Any:
    try:
        return memoryview(data)
    except TypeError:
        return _calls.as_bytes(data)


def described(frame: bytes, array: Any) -> bytes:
    """Adds the dtype and shape of an array to a frame."""
    # z4ai stores a zero-dimensional array with one dimension.
    shape = list(array.shape) or [1]
    return _calls.call(_native.describe_frame, frame, array.dtype.str, shape)


def decompress(blob: Any, *, out: Any = None) -> Any:
    """Returns the decoded content of a frame, or `out` filled with it."""
    return _calls.into(_calls.call(_native.decompress, _calls.as_bytes(blob), 0), out)


def compress_ndarray(arr: Any, **kwargs: Any) -> bytes:
    """Compresses an array with its dtype and shape."""
    if not _calls.is_array(arr):
        raise TypeError("compress_ndarray expects a numpy.ndarray")
    return compress(arr, **kwargs)


def decompress_ndarray(blob: Any) -> Any:
    """Returns the array in a frame."""
    import numpy as np

    _, _, array = _calls.call(_native.inspect_frame, _calls.as_bytes(blob))
    if array is None:
        raise ValueError("blob was not produced from a numpy array")
    dtype, shape = np.dtype(array[0]), array[1]
    result = decompress(blob)
    if not result:
        return np.empty(shape, dtype)
    return np.frombuffer(result, dtype).reshape(shape)


compress_array = compress_ndarray
decompress_array = decompress_ndarray
