"""The functions of z4ai 0.2.0: ``import zstn.z4ai as z4ai``.

Each library reads the files of the other. The bytes that are written differ from z4ai's,
which also differ between machines. `level` selects an effort: ``"fast"`` below 1,
``"max"`` above 9.

Internal modules of z4ai that define no file format are not included: ``backend``,
``bitfield``, ``rans``, ``rans_o1``, ``build_native``, ``cli``.
"""

from __future__ import annotations

from typing import Any

from .. import _lazy
from . import _calls, codec, delta, model_delta
from . import auto as auto
from . import format as format
from .codec import (
    DEFAULT_ESCALATE_LEVEL,
    DEFAULT_LEVEL,
    compress_array,
    decompress_array,
)
from .format import peek_is_z4ai

__all__ = [
    "DEFAULT_ESCALATE_LEVEL",
    "DEFAULT_LEVEL",
    "DTYPE_WIDTHS",
    "__version__",
    "compress",
    "compress_array",
    "compress_delta",
    "compress_ndarray",
    "decompress",
    "decompress_array",
    "decompress_delta",
    "decompress_ndarray",
    "delta",
    "dtype_width",
    "model_delta",
    "peek_is_z4ai",
]

#: The version of z4ai whose functions these are.
__version__ = "0.2.0"

DTYPE_WIDTHS: dict[str | None, int] = {
    **dict.fromkeys((None, "raw", "uint8", "int8", "bool", "fp8_e4m3", "fp8_e5m2"), 1),
    **dict.fromkeys(("bf16", "fp16", "float16", "int16", "uint16"), 2),
    **dict.fromkeys(("fp32", "float32", "int32", "uint32"), 4),
    **dict.fromkeys(("fp64", "float64", "int64", "uint64"), 8),
}


def dtype_width(dtype: str | None) -> int:
    """Returns the number of bytes of an element."""
    if dtype not in DTYPE_WIDTHS:
        known = sorted(name for name in DTYPE_WIDTHS if name is not None)
        raise ValueError(f"unknown dtype code {dtype!r}; known codes: {known}")
    return DTYPE_WIDTHS[dtype]


def compress(
    data: Any,
    *,
    dtype: str | None = None,
    level: int | None = None,
    threads: int = 0,
    auto: bool = True,
    effort: str | None = None,
) -> bytes:
    """Compresses a buffer, or an array with its dtype and shape."""
    from .. import _native

    array = data if _calls.is_array(data) else None
    if array is None:
        data = _calls.as_bytes(data)
        dtype_width(dtype)
        # This dtype means bytes without a structure.
        dtype = None if dtype == "raw" else dtype
    else:
        data, dtype = _calls.array_memory(array), _calls.array_dtype(array)
    # Without an effort, only frame families that all decoders of z4ai read are used.
    families = "standalone" if effort is not None else "container"
    frame = _calls.call(
        _native.compress,
        data,
        dtype,
        _calls.effort_of(level, effort),
        families if auto else "plain",
        _calls.thread_count(threads),
    )
    return frame if array is None else codec.described(frame, array)


def decompress(blob: Any, *, out: Any = None) -> Any:
    """Returns the decoded content of a frame, or `out` filled with it."""
    return codec.decompress(blob, out=out)


def compress_ndarray(
    arr: Any, *, level: int | None = None, threads: int = 0, effort: str | None = None
) -> bytes:
    """Compresses an array with its dtype and shape."""
    return compress(arr, level=level, threads=threads, effort=effort)


def decompress_ndarray(blob: Any) -> Any:
    """Returns the array in a frame."""
    return codec.decompress_ndarray(blob)


def compress_delta(
    current: Any,
    reference: Any,
    *,
    dtype: str | None = None,
    level: int | None = None,
    threads: int = 0,
) -> bytes:
    """Compresses `current` as a delta from `reference`."""
    return delta.compress(current, reference, dtype=dtype, level=level, threads=threads)


def decompress_delta(blob: Any, reference: Any, *, out: Any = None) -> Any:
    """Restores a buffer from its delta; returns it, or `out` filled with it."""
    return delta.decompress(blob, reference, out=out)


# Imported on first use, because torch is large.
_HF_EXPORTS = frozenset({"disable_hf", "enable_hf", "is_enabled", "load_file", "save_file"})
_MODULES = frozenset(
    {"chunked", "integrations", "palette", "safetensors", "sparse", "transforms", "turbo"}
)


def __getattr__(name: str) -> Any:
    if name in _HF_EXPORTS:
        return getattr(_lazy.module(__name__, "integrations"), name)
    if name in _MODULES:
        return _lazy.module(__name__, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
