"""torch state dicts, like the module ``z4ai.integrations``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from .. import _native, _patch
from .._sources import http_options
from . import _calls

__all__ = ["disable_hf", "enable_hf", "is_enabled", "load_file", "save_file"]


def _torch() -> Any:
    try:
        from .. import torch
    except ImportError as error:
        raise RuntimeError("this needs torch: `pip install torch`") from error
    return torch


def load_file(path: str, device: str = "cpu") -> dict[str, Any]:
    """Reads all tensors of a plain or packed file."""
    return _torch().load_file(path, device)


def save_file(
    tensors: Mapping[str, Any],
    path: str,
    metadata: Mapping[str, str] | None = None,
    *,
    level: int | None = None,
) -> dict[str, Any]:
    """Writes a packed file, whatever its name."""
    stored = list(_torch().stored(tensors))
    effort = _calls.effort_of(level)
    _native.save_file(stored, path, dict(metadata or {}), effort, 0)
    reader = _native.Reader(path, None, http_options(), False, 0)
    original = sum(info.nbytes for name in reader.keys() if (info := reader.find(name)))
    return _calls.stats(original, os.path.getsize(path))


def enable_hf() -> None:
    """Lets safetensors and the libraries that use it read packed files, like
    `zstn.enable_hf`. `disable_hf` undoes it."""
    try:
        _patch.enable_hf()
    except ImportError as error:
        raise RuntimeError(str(error)) from error


def disable_hf() -> None:
    """Undoes `enable_hf`."""
    _patch.disable_hf()


def is_enabled() -> bool:
    """Returns whether `enable_hf` is in effect."""
    return _patch.is_enabled()
