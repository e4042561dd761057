"""Saves and loads NumPy arrays, with the same functions as ``safetensors.numpy``."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from . import _save
from ._frameworks import is_big_endian, safetensors_dtype, to_numpy
from ._types import Backend, Effort, Format


def save(
    tensor_dict: Mapping[str, np.ndarray[Any, Any]],
    metadata: Mapping[str, str] | None = None,
    *,
    format: Format | None = None,
    effort: Effort = "balanced",
) -> bytes:
    """Returns the bytes of a safetensors file, or of a packed file with
    ``format="zstn"``."""
    return _save.save(stored(tensor_dict), metadata, format, effort)


def save_file(
    tensor_dict: Mapping[str, np.ndarray[Any, Any]],
    filename: str | os.PathLike[str],
    metadata: Mapping[str, str] | None = None,
    *,
    format: Format | None = None,
    effort: Effort = "balanced",
) -> None:
    """Writes a safetensors file, or a packed file if `filename` ends in ``.zstn`` or
    `format` is ``"zstn"``."""
    _save.save_file(stored(tensor_dict), filename, metadata, format, effort)


def load(data: Any) -> dict[str, np.ndarray[Any, Any]]:
    """Reads all tensors from the bytes of a plain or packed file."""
    return _save.load(data, to_numpy)


def load_file(
    filename: str | os.PathLike[str], *, backend: Backend = "mmap"
) -> dict[str, np.ndarray[Any, Any]]:
    """Reads all tensors of a plain or packed file."""
    return _save.load_file(filename, "numpy", "cpu", backend)


def stored(tensors: Mapping[str, np.ndarray[Any, Any]]) -> Iterator[_save.Stored]:
    """Yields arrays as safetensors stores them, without a copy if possible."""
    if not isinstance(tensors, Mapping):
        raise TypeError(f"tensors are a dictionary of arrays, not {type(tensors).__name__}")
    for name, array in tensors.items():
        if not isinstance(name, str):
            raise TypeError(f"the names of tensors must be strings, not {name!r}")
        if not isinstance(array, np.ndarray | np.generic):
            raise TypeError(f"tensor `{name}` is not a NumPy array but {type(array).__name__}")
        dtype = safetensors_dtype(array.dtype)
        array = np.asarray(array)
        shape = array.shape
        if is_big_endian(array.dtype):
            array = array.astype(array.dtype.newbyteorder("<"))
        # An array with a zero stride becomes flat without becoming contiguous.
        flat = np.ascontiguousarray(array.reshape(-1)).view(np.uint8)
        if dtype == "F4":
            flat = _pairs(flat, name)
        yield name, dtype, shape, flat


def _pairs(codes: np.ndarray[Any, Any], name: str) -> np.ndarray[Any, Any]:
    """Packs elements of four bits into bytes, two in each."""
    from ._errors import ZstnError

    if codes.size % 2:
        raise ZstnError(f"tensor `{name}`: an odd number of elements of four bits", "unsupported")
    return (codes[0::2] & 15) | (codes[1::2] << 4)
