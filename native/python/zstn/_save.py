"""Saving and loading dictionaries of tensors, for the modules of the frameworks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from . import _native
from ._options import check_effort
from ._safe_open import safe_open
from ._types import Backend

#: A tensor in the form that the native module accepts: name, dtype, shape and bytes.
Stored = tuple[str, str, tuple[int, ...], Any]


def save(
    tensors: Iterable[Stored],
    metadata: Mapping[str, str] | None,
    format: str | None,
    effort: str,
    threads: int = 0,
) -> bytes:
    packs, effort = _packs(format, None), check_effort(effort)
    return _native.save(list(tensors), _checked(metadata), effort if packs else None, threads)


def save_file(
    tensors: Iterable[Stored],
    filename: str | os.PathLike[str],
    metadata: Mapping[str, str] | None,
    format: str | None,
    effort: str,
    threads: int = 0,
) -> None:
    packs, effort = _packs(format, _name(filename)), check_effort(effort)
    _native.save_file(
        list(tensors), filename, _checked(metadata), effort if packs else None, threads
    )


def _checked(metadata: Mapping[str, str] | None) -> dict[str, str] | None:
    """Returns the metadata as a dictionary. Empty metadata result in an empty entry in
    the header, as in safetensors."""
    if metadata is None:
        return None
    if not isinstance(metadata, Mapping):
        raise TypeError(
            f"metadata must be a dictionary of strings, not {type(metadata).__name__}"
        )
    for key, value in metadata.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError(f"metadata must map strings to strings, not {key!r}: {value!r}")
    return dict(metadata)


def _packs(format: str | None, name: str | None) -> bool:
    """Returns whether the output is ZSTN, according to `format` or the file name."""
    if format is None:
        return name is not None and name.lower().endswith(".zstn")
    if format not in ("zstn", "safetensors"):
        raise ValueError(f'format must be "zstn" or "safetensors", not {format!r}')
    return format == "zstn"


def _name(filename: Any) -> str:
    """Returns the path of an output; an empty string for a file object."""
    if isinstance(filename, str | os.PathLike):
        return os.fsdecode(filename)
    if hasattr(filename, "write"):
        return ""
    raise TypeError(f"a filename is a path, not {filename!r} of type {type(filename).__name__}")


def load(data: Any, make: Callable[..., Any], device: Any = "cpu") -> dict[str, Any]:
    """Reads all tensors of a file in memory."""
    from ._sources import http_options

    if isinstance(data, str | os.PathLike):
        raise TypeError("these are the bytes of a file; a path is for load_file")
    reader = _native.Reader(data, None, http_options(), False, 0)
    names = reader.offset_keys()
    result = {}
    for name, memory in zip(names, reader.read_many(names), strict=True):
        info = reader.find(name)
        assert info is not None
        result[name] = make(memory, info.dtype, info.shape, device)
    return result


def load_file(
    filename: str | os.PathLike[str], framework: str, device: Any, backend: Backend
) -> dict[str, Any]:
    """Reads all tensors of a file."""
    with safe_open(filename, framework, device, backend=backend) as file:
        return file.get_tensors()
