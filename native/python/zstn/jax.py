"""Saves and loads JAX arrays, with the same functions as ``safetensors.flax``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from jax import Array

from . import _save
from ._frameworks import to_jax
from ._types import Backend, Effort, Format
from .numpy import stored


def save(
    tensors: Mapping[str, Array],
    metadata: Mapping[str, str] | None = None,
    *,
    format: Format | None = None,
    effort: Effort = "balanced",
) -> bytes:
    """Returns the bytes of a safetensors file, or of a packed file with
    ``format="zstn"``."""
    return _save.save(stored(_arrays(tensors)), metadata, format, effort)


def save_file(
    tensors: Mapping[str, Array],
    filename: str | os.PathLike[str],
    metadata: Mapping[str, str] | None = None,
    *,
    format: Format | None = None,
    effort: Effort = "balanced",
) -> None:
    """Writes a safetensors file, or a packed file if `filename` ends in ``.zstn`` or
    `format` is ``"zstn"``."""
    _save.save_file(stored(_arrays(tensors)), filename, metadata, format, effort)


def load(data: Any) -> dict[str, Array]:
    """Reads all tensors from the bytes of a plain or packed file."""
    return _save.load(data, to_jax)


def load_file(
    filename: str | os.PathLike[str], *, backend: Backend = "mmap"
) -> dict[str, Array]:
    """Reads all tensors of a plain or packed file."""
    return _save.load_file(filename, "flax", "cpu", backend)


def _arrays(tensors: Mapping[str, Array]) -> dict[str, np.ndarray[Any, Any]]:
    return {name: np.asarray(tensor) for name, tensor in tensors.items()}
