"""Types of arguments."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, Union

if TYPE_CHECKING:
    import numpy as np
    from typing_extensions import Buffer as _Buffer

Effort: TypeAlias = Literal["fast", "balanced", "max"]
Format: TypeAlias = Literal["safetensors", "zstn"]
Backend: TypeAlias = Literal["mmap", "pread"]

# Names of frameworks that have a type of their own.
NumpyName: TypeAlias = Literal["numpy", "np"]
TorchName: TypeAlias = Literal["torch", "pt", "pytorch"]
JaxName: TypeAlias = Literal["jax", "flax"]


class BinaryFile(Protocol):
    """A file object that is read by range."""

    def read(self, size: int = ..., /) -> Any: ...
    def seek(self, offset: int, whence: int = ..., /) -> Any: ...
    def tell(self) -> int: ...


class OpenFile(Protocol):
    """The return value of ``fsspec.open``."""

    fs: Any
    path: str

    def open(self) -> Any: ...


class Writer(Protocol):
    """A file object that is written to. `write` returns the number of bytes accepted,
    as `io.RawIOBase.write` does."""

    def write(self, data: bytes, /) -> int | None: ...


class Bar(Protocol):
    """A progress bar with the interface of tqdm."""

    total: Any

    def update(self, n: Any, /) -> Any: ...


class Array(Protocol):
    """A NumPy array, whose memory is an input. NumPy arrays have no other common
    protocol before Python 3.12."""

    @property
    def __array_interface__(self) -> Any: ...


NumpyArray: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
#: An input: a path or an address, memory, or a file object.
Input: TypeAlias = Union[str, "os.PathLike[str]", "_Buffer", Array, BinaryFile, OpenFile]
#: An output: a path, an address, or a file object.
Output: TypeAlias = Union[str, "os.PathLike[str]", Writer]
Bases: TypeAlias = Union[Input, Sequence[Input], None]
#: `True` for a tqdm bar, a class like ``tqdm.tqdm`` or an instance of one, or a
#: function of the bytes done and the total.
Progress: TypeAlias = Union[bool, None, type[Any], Bar, Callable[[int, int], object]]
