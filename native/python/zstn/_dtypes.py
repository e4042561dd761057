"""Conversion between the dtypes of safetensors and NumPy."""

from __future__ import annotations

import sys
from typing import Any

#: dtypes that NumPy supports itself.
_NUMPY = {
    "BOOL": "bool",
    "U8": "uint8",
    "I8": "int8",
    "I16": "int16",
    "U16": "uint16",
    "F16": "float16",
    "I32": "int32",
    "U32": "uint32",
    "F32": "float32",
    "C64": "complex64",
    "F64": "float64",
    "I64": "int64",
    "U64": "uint64",
}

#: dtypes that the package ml_dtypes adds to NumPy.
_ML_DTYPES = {
    "BF16": "bfloat16",
    "F8_E5M2": "float8_e5m2",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E8M0": "float8_e8m0fnu",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
    "F4": "float4_e2m1fn",
}

_NAMES = {name: dtype for names in (_NUMPY, _ML_DTYPES) for dtype, name in names.items()}


def numpy_dtype(dtype: str) -> Any:
    """Returns the NumPy dtype for a safetensors dtype."""
    import numpy as np

    if dtype in _NUMPY:
        return np.dtype(_NUMPY[dtype])
    if dtype not in _ML_DTYPES:
        raise TypeError(f"NumPy has no dtype for {dtype}; `reader.read(name)` gives its bytes")
    try:
        import ml_dtypes
    except ImportError:
        raise TypeError(
            f"NumPy itself has no dtype for {dtype}: `pip install ml_dtypes` adds it, "
            "and `reader.read(name)` gives the bytes"
        ) from None
    return np.dtype(getattr(ml_dtypes, _ML_DTYPES[dtype]))


def safetensors_dtype(dtype: Any) -> str:
    """Returns the safetensors dtype for a NumPy dtype."""
    name = _NAMES.get(dtype.name)
    if name is None:
        from ._errors import ZstnError

        raise ZstnError(f"safetensors has no dtype {dtype.name}", "unsupported")
    return name


def is_big_endian(dtype: Any) -> bool:
    order = dtype.byteorder
    return order == ">" or (order == "=" and sys.byteorder == "big")
