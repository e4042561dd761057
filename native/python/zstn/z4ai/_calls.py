"""Helpers for the modules: conversion of z4ai's arguments for the native module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import _native
from .._errors import ZstnError
from .._types import Effort


class Z4aiError(ZstnError, ValueError):
    """An error of zstn that is also a `ValueError`, as z4ai raises in the same cases."""


def call(function: Callable[..., Any], *args: Any) -> Any:
    """Calls a function of the native module and converts its errors."""
    try:
        return function(*args)
    except ZstnError as error:
        raise Z4aiError(str(error), error.code) from None


def refuse_other_formats(path: Any) -> None:
    """Refuses a file that is not a safetensors file, as z4ai does."""
    if _native.is_of_another_format(path):
        message = f"{path} is not a safetensors file; zstn.pack takes files of any format"
        raise Z4aiError(message, "unsupported")


def as_bytes(data: Any) -> Any:
    """Returns bytes-like data without a copy."""
    if isinstance(data, bytes | bytearray | memoryview):
        return data
    raise TypeError(
        f"data must be bytes-like or a numpy.ndarray, got {type(data).__name__}"
    )


def is_array(data: Any) -> bool:
    return hasattr(data, "dtype") and hasattr(data, "shape") and hasattr(data, "tobytes")


def array_memory(array: Any) -> Any:
    """Returns the bytes of an array in row-major order."""
    import numpy as np

    if array.dtype.hasobject:
        raise ValueError("an array of Python objects cannot be stored in a file")
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8) if array.size else b""


def array_dtype(array: Any) -> str | None:
    """Returns the dtype with which an array is compressed; `None` for bytes without a
    structure."""
    dtype = array.dtype
    if dtype.kind == "f" and dtype.isnative and dtype.itemsize in (2, 4, 8):
        return f"float{dtype.itemsize * 8}"
    if dtype.kind in "iu" and dtype.itemsize in (2, 4, 8):
        return f"int{dtype.itemsize * 8}"
    return None


def into(result: bytes, out: Any) -> Any:
    """Copies a result to the start of `out`, if given."""
    if out is None:
        return result
    view = memoryview(out).cast("B")
    if len(view) < len(result):
        raise ValueError(f"out buffer too small: {len(view)} < {len(result)}")
    view[: len(result)] = result
    return out


def effort_of(level: int | None, effort: str | None = None) -> Effort:
    """Returns the effort of zstn for an effort of z4ai or, without one, a zstd level."""
    if effort is not None:
        return "fast" if effort == "fast" else "balanced" if effort == "balanced" else "max"
    if level is not None and level < 1:
        return "fast"
    return "max" if level is not None and level > 9 else "balanced"


def thread_count(threads: int | None) -> int:
    return 0 if threads is None else threads


def stats(original: int, compressed: int) -> dict[str, Any]:
    return {
        "original_bytes": original,
        "compressed_bytes": compressed,
        "ratio": original / compressed if compressed else float("inf"),
        "saved_pct": (1 - compressed / original) * 100 if original else 0.0,
    }
