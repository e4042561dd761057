"""Replacements for functions of safetensors."""

from __future__ import annotations

import os
from typing import Any

from .. import _native
from .._safe_open import safe_open as open_packed
from .._sources import http_options

#: The first bytes of a packed file. Read as the header length of a plain file, they
#: would exceed the limit of safetensors.
_MAGIC = b"ZSTN"


def make_safe_open(original: Any) -> Any:
    """Returns a class that opens packed files with zstn and all others with `original`.
    """

    class Meta(type):
        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, (original, open_packed))

    class safe_open(metaclass=Meta):  # noqa: N801 - the name of the class that it replaces
        __doc__ = original.__doc__

        def __new__(cls, filename: Any, *args: Any, **options: Any) -> Any:
            chosen = open_packed if _is_packed(filename) else original
            return chosen(filename, *args, **options)

    safe_open.__module__ = "zstn"
    safe_open.__qualname__ = "safe_open"
    return safe_open


def _is_packed(filename: Any) -> bool:
    if not isinstance(filename, str | os.PathLike):
        # A number is the descriptor of a file that the caller has opened.
        return False
    try:
        with open(filename, "rb", buffering=0) as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except (OSError, ValueError):
        # The original function raises the appropriate error.
        return False


def make_deserialize(original: Any) -> Any:
    """Returns a function that reads packed bytes with zstn and all others with
    `original`."""

    def deserialize(data: Any) -> list[tuple[str, dict[str, Any]]]:
        if not isinstance(data, bytes | bytearray | memoryview) or bytes(data[:4]) != _MAGIC:
            result: list[tuple[str, dict[str, Any]]] = original(data)
            return result
        reader = _native.Reader(data, None, http_options(), False, 0)
        names = reader.offset_keys()
        tensors = []
        for name, memory in zip(names, reader.read_many(names), strict=True):
            info = reader.find(name)
            assert info is not None
            fields = {"dtype": info.dtype, "shape": list(info.shape), "data": memory}
            tensors.append((name, fields))
        return tensors

    deserialize.__doc__ = original.__doc__
    return deserialize
