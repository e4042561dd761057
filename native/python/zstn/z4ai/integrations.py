"""torch's state dicts, as ``z4ai.integrations`` has them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from .. import _native
from . import _calls

__all__ = ["disable_hf", "enable_hf", "is_enabled", "load_file", "save_file"]


def _torch() -> Any:
    try:
        from .. import torch
    except ImportError as error:
        raise RuntimeError("this needs torch: `pip install torch`") from error
    return torch


def load_file(path: str, device: str = "cpu") -> dict[str, Any]:
    """Reads all tensors of a file, plain or packed."""
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
    reader = _native.Reader(path, None, {"token": None, "headers": {}, "retries": None,
                                         "timeout": None}, False, 0)  # fmt: skip
    original = sum(info.nbytes for name in reader.keys() if (info := reader.find(name)))
    return _calls.stats(original, os.path.getsize(path))


def _modules() -> tuple[Any, Any]:
    import safetensors
    import safetensors.torch

    return safetensors, safetensors.torch


_originals: dict[str, Any] = {}


def is_enabled() -> bool:
    """Returns whether `enable_hf` is in force."""
    return bool(_originals)


def _is_packed(path: Any) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(4) == b"ZSTN"
    except OSError:
        return False


def enable_hf() -> None:
    """Lets safetensors read packed files, for libraries that are imported
    afterwards. `disable_hf` undoes it."""
    if _originals:
        return
    try:
        safetensors, st = _modules()
    except ImportError as error:
        raise RuntimeError("this needs safetensors and torch") from error
    from .._safe_open import safe_open as ours

    theirs, load = safetensors.safe_open, st.load_file

    def safe_open(filename: Any, framework: str = "pt", device: Any = "cpu", **options: Any) -> Any:
        chosen = ours if _is_packed(filename) else theirs
        return chosen(filename, framework, device, **options)

    def load_file_of_either(filename: Any, device: Any = "cpu", **options: Any) -> Any:
        if _is_packed(filename):
            return _torch().load_file(filename, device, **options)
        return load(filename, device, **options)

    _originals.update(safe_open=theirs, st_safe_open=st.safe_open, load_file=load)
    safetensors.safe_open = st.safe_open = safe_open
    st.load_file = load_file_of_either


def disable_hf() -> None:
    """Undoes `enable_hf`."""
    if not _originals:
        return
    safetensors, st = _modules()
    safetensors.safe_open = _originals["safe_open"]
    st.safe_open = _originals["st_safe_open"]
    st.load_file = _originals["load_file"]
    _originals.clear()
