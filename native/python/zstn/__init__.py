"""Packs AI model checkpoints losslessly, and reads single tensors out of packed
files, from disk or over HTTP.

>>> import zstn
>>> report = zstn.pack("model.safetensors", "model.zstn")
>>> model = zstn.open("model.zstn")
>>> weight = model.numpy("wte.weight")
"""

from __future__ import annotations

import atexit as _atexit
import os as _os
from typing import Any as _Any

from . import _lazy, _native
from ._checkpoint import convert, diff, pack, sketch, unpack, verify
from ._errors import SliceError, TensorNotFoundError, ZstnError
from ._native import Buffer, TensorInfo
from ._patch import disable_hf, enable_hf, is_enabled
from ._reader import Reader, Slice, open
from ._reports import (
    ConvertReport,
    DiffReport,
    FamilyReport,
    Figures,
    FolderReport,
    PackedFile,
    PackReport,
    SketchReport,
    Statistics,
    TensorDiff,
    UnpackedFile,
    UnpackReport,
    Uploaded,
    VerifiedFile,
    VerifyReport,
)
from ._safe_open import safe_open
from ._threads import to_thread

__all__ = [
    "Buffer",
    "ConvertReport",
    "DiffReport",
    "FamilyReport",
    "Figures",
    "FolderReport",
    "PackReport",
    "PackedFile",
    "Reader",
    "SketchReport",
    "Slice",
    "SliceError",
    "Statistics",
    "TensorDiff",
    "TensorInfo",
    "TensorNotFoundError",
    "UnpackReport",
    "UnpackedFile",
    "Uploaded",
    "VerifiedFile",
    "VerifyReport",
    "ZstnError",
    "__version__",
    "convert",
    "diff",
    "disable_hf",
    "enable_hf",
    "is_enabled",
    "open",
    "pack",
    "safe_open",
    "sketch",
    "to_thread",
    "unpack",
    "verify",
]

__version__: str = _native.VERSION

# These modules are imported on first use, because each needs its framework.
_MODULES = frozenset(
    {"aio", "dcp", "fsspec", "hub", "jax", "mlx", "numpy", "torch", "training", "z4ai"}
)


def __getattr__(name: str) -> _Any:
    if name in _MODULES:
        return _lazy.module(__name__, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})


def _clean_up(process: int = _os.getpid()) -> None:
    # The files belong to the process that created them, not to its forked children.
    if _os.getpid() == process:
        _native.remove_unfinished()


_atexit.register(_clean_up)
