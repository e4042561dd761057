"""Saves and loads MLX arrays, with the same functions as ``safetensors.mlx``."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

import mlx.core as mx
import numpy as np

from . import _save
from ._frameworks import to_mlx
from ._types import Backend, Effort, Format
from .numpy import stored as stored_numpy


def save(
    tensors: Mapping[str, mx.array],
    metadata: Mapping[str, str] | None = None,
    *,
    format: Format | None = None,
    effort: Effort = "balanced",
) -> bytes:
    """Returns the bytes of a safetensors file, or of a packed file with
    ``format="zstn"``."""
    return _save.save(_stored(tensors), metadata, format, effort)


def save_file(
    tensors: Mapping[str, mx.array],
    filename: str | os.PathLike[str],
    metadata: Mapping[str, str] | None = None,
    *,
    format: Format | None = None,
    effort: Effort = "balanced",
) -> None:
    """Writes a safetensors file, or a packed file if `filename` ends in ``.zstn`` or
    `format` is ``"zstn"``."""
    _save.save_file(_stored(tensors), filename, metadata, format, effort)


def load(data: Any) -> dict[str, mx.array]:
    """Reads all tensors from the bytes of a plain or packed file."""
    return _save.load(data, to_mlx)


def load_file(
    filename: str | os.PathLike[str], *, backend: Backend = "mmap"
) -> dict[str, mx.array]:
    """Reads all tensors of a plain or packed file."""
    return _save.load_file(filename, "mlx", "cpu", backend)


def _stored(tensors: Mapping[str, mx.array]) -> Iterator[_save.Stored]:
    for name, tensor in tensors.items():
        if tensor.dtype == mx.bfloat16:
            # NumPy does not accept an array with this dtype.
            codes = np.array(tensor.view(mx.uint16))
            ((_, _, shape, memory),) = stored_numpy({name: codes})
            yield name, "BF16", shape, memory
        else:
            yield from stored_numpy({name: np.array(tensor)})
