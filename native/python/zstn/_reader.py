"""Opened models."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from . import _gpu, _native
from ._errors import TensorNotFoundError, ZstnError
from ._frameworks import find, is_cpu, numpy_dtype, to_numpy
from ._log import LOGGER, shown
from ._options import flag
from ._reports import Figures, Statistics
from ._slices import Plan, plan
from ._sources import http_options, resolve_kind
from ._types import Bases, Input

if TYPE_CHECKING:
    import numpy as np
    import torch

_T = TypeVar("_T")


class Slice(Generic[_T]):
    """A tensor that is read when it is indexed, and only as far as the index needs:
    ``reader.slice(name)[10:20, :, 3]``.

    An index may contain integers, slices with steps, lists, arrays and masks. Only the
    blocks of the file that contain selected elements are read; decoded blocks are cached
    for further indices (up to 16 MiB for all slices of a reader). ``numpy.asarray`` and
    other functions that accept arrays read the whole tensor.
    """

    def __init__(
        self,
        reader: _native.Reader,
        info: _native.TensorInfo,
        framework: str,
        device: Any,
        opening: Opening,
        *,
        on_gpu: bool = False,
    ) -> None:
        self._reader = reader
        self._info = info
        self._framework = framework
        self._library, self._make = find(framework)
        self._on_gpu = on_gpu
        self._device = device
        self._opening = opening

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy dtype; `get_dtype` returns the safetensors dtype."""
        return numpy_dtype(self._info.dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        return self._info.shape

    @property
    def ndim(self) -> int:
        return len(self._info.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self._info.shape)

    @property
    def nbytes(self) -> int:
        return self._info.nbytes

    def get_shape(self) -> list[int]:
        return list(self._info.shape)

    def get_dtype(self) -> str:
        return self._info.dtype

    def __len__(self) -> int:
        if not self._info.shape:
            raise TypeError(f"tensor `{self._info.name}` has no dimensions, so it has no len()")
        return self._info.shape[0]

    def __getitem__(self, index: Any) -> _T:
        info = self._info
        planned = plan(index, info.shape)
        if self._on_gpu and planned is not None:
            part = _gpu.read_slice(self._reader, info, planned, self._library, self._device)
            if part is not None:
                return part
        if planned is None or (planned.rest is not None and not self._has_whole_bytes(planned)):
            memory = self._reader.read(info.name)
            return self._make(memory, info.dtype, info.shape, self._device)[index]
        memory = self._reader.read_slice(info.name, planned.picks)
        tensor = self._make(memory, info.dtype, planned.shape, self._device)
        return tensor if planned.rest is None else tensor[planned.rest]

    def _has_whole_bytes(self, planned: Plan) -> bool:
        """Returns whether the planned part consists of whole bytes."""
        if self._info.dtype != "F4":
            return True
        length = self._info.shape[-1]
        return length % 2 == 0 and planned.picks[-1] == (0, 1, length)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        if copy is False:
            raise ValueError("a tensor in a file is read into a new array: copy=False is impossible")
        info = self._info
        array = to_numpy(self._reader.read(info.name), info.dtype, info.shape)
        return array if dtype is None else array.astype(dtype, copy=False)

    def __dlpack__(self, **options: Any) -> Any:
        info = self._info
        tensor = self._make(self._reader.read(info.name), info.dtype, info.shape, self._device)
        return tensor.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        if is_cpu(self._device):
            return 1, 0
        return self._make(b"", "U8", (0,), self._device).__dlpack_device__()

    def __reduce__(self) -> Any:
        return _slice_again, (self._opening, self._info, self._framework, self._device)

    def __repr__(self) -> str:
        return f"<zstn.Slice of {self._info!r}>"


class Opening:
    """The arguments with which a model was opened, to open it again in another process.
    """

    def __init__(self, source: Any, options: dict[str, Any]) -> None:
        self.source = _absolute(source)
        self.options = options

    def open(self) -> Reader:
        return open(self.source, **self.options)

    def __reduce__(self) -> Any:
        # Memory of other types may not support pickling.
        source = self.source
        if isinstance(source, bytearray | memoryview):
            source = bytes(source)
        elif not isinstance(source, str | bytes | os.PathLike) and hasattr(source, "read"):
            raise TypeError(
                f"a model in {type(source).__name__} cannot be pickled: open it by its path or address"
            )
        return Opening, (source, self.options)


def _absolute(source: Any) -> Any:
    """Returns an absolute path for a path, and any other source unchanged."""
    if isinstance(source, str | os.PathLike) and resolve_kind(source) == "path":
        return os.path.abspath(source)
    return source


def _slice_again(
    opening: Opening, info: _native.TensorInfo, framework: str, device: Any
) -> Slice[Any]:
    return opening.open().slice(info.name, framework, device)


class Reader:
    """An opened model, returned by `zstn.open`. It is a mapping from tensor names to
    their index entries. Several threads may use it at the same time."""

    def __init__(self, native: _native.Reader, opening: Opening) -> None:
        self._native = native
        self._opening = opening

    @property
    def name(self) -> str:
        """The path or address with which the model was opened."""
        return self._native.name

    @property
    def kind(self) -> str:
        """The file format, such as ``"zstn"`` or ``"safetensors"``."""
        return self._native.kind

    @property
    def metadata(self) -> dict[str, str]:
        """The ``__metadata__`` of the safetensors header."""
        return self._native.metadata()

    def keys(self) -> list[str]:
        """Returns the names of all tensors, in the order of the index. Tensors that
        cannot be read come last; reading one raises the error."""
        return self._native.keys()

    def values(self) -> Iterator[_native.TensorInfo]:
        return (self[name] for name in self)

    def items(self) -> Iterator[tuple[str, _native.TensorInfo]]:
        return ((name, self[name]) for name in self)

    def __len__(self) -> int:
        return self._native.len()

    def __iter__(self) -> Iterator[str]:
        return iter(self._native.keys())

    def __contains__(self, name: object) -> bool:
        try:
            return isinstance(name, str) and self._native.find(name) is not None
        except ZstnError:
            # The tensor exists but cannot be read.
            return True

    def __getitem__(self, name: str) -> _native.TensorInfo:
        info = self._native.find(name)
        if info is None:
            # The error of `read` suggests similar names.
            self._native.read(name)
            raise TensorNotFoundError(f"{self.name} has no tensor {name}")
        return info

    def read(self, name: str) -> _native.Buffer:
        """Reads the bytes of a tensor, little-endian and row-major."""
        return self._native.read(name)

    def numpy(self, name: str) -> np.ndarray[Any, np.dtype[Any]]:
        """Reads a tensor as a NumPy array that owns its memory."""
        info = self[name]
        return to_numpy(self._native.read(name), info.dtype, info.shape)

    @overload
    def tensor(
        self, name: str, framework: Literal["numpy", "np"] = "numpy", device: Any = "cpu"
    ) -> np.ndarray[Any, np.dtype[Any]]: ...
    @overload
    def tensor(
        self, name: str, framework: Literal["torch", "pt", "pytorch"], device: Any = "cpu"
    ) -> torch.Tensor: ...
    @overload
    def tensor(self, name: str, framework: str, device: Any = "cpu") -> Any: ...
    def tensor(self, name: str, framework: str = "numpy", device: Any = "cpu") -> Any:
        """Reads a tensor as a tensor of a framework: ``"numpy"``, ``"torch"``,
        ``"jax"``, ``"mlx"``, …"""
        info = self[name]
        return find(framework)[1](self._native.read(name), info.dtype, info.shape, device)

    @overload
    def slice(
        self, name: str, framework: Literal["numpy", "np"] = "numpy", device: Any = "cpu"
    ) -> Slice[np.ndarray[Any, np.dtype[Any]]]: ...
    @overload
    def slice(
        self, name: str, framework: Literal["torch", "pt", "pytorch"], device: Any = "cpu"
    ) -> Slice[torch.Tensor]: ...
    @overload
    def slice(self, name: str, framework: str, device: Any = "cpu") -> Slice[Any]: ...
    def slice(self, name: str, framework: str = "numpy", device: Any = "cpu") -> Slice[Any]:
        """Returns a tensor that is read only when it is indexed."""
        return Slice(self._native, self[name], framework, device, self._opening)

    def statistics(self, name: str) -> Statistics | None:
        """Returns the statistics of a tensor and of its bands of rows, which were
        stored when the file was packed. Returns `None` if there are none: in other
        formats than ZSTN, in files packed without statistics, for tensors without
        elements, for weights that are stored as several tensors, and for ``F4``,
        ``F6_E2M3``, ``F6_E3M2`` and ``C64``."""
        found = self._native.statistics(name)
        if found is None:
            return None
        summary, rows_per_band, bands = found
        return Statistics(Figures(*summary), rows_per_band, [Figures(*band) for band in bands])

    def summaries(self) -> dict[str, Figures]:
        """Returns the summary statistics of all tensors that have them. They are part
        of the index, so this reads no tensor."""
        return {name: Figures(*figures) for name, figures in self._native.summaries()}

    def close(self) -> None:
        """Closes the model's files."""
        self._native.close()

    def __reduce__(self) -> Any:
        """Pickles the arguments with which the model was opened, including a token;
        another process opens it again."""
        return _reader_again, (self._opening,)

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._native.is_closed:
            return "<zstn.Reader, closed>"
        return f"<zstn.Reader of {self.name}: {self.kind}, {len(self)} tensors>"


def _reader_again(opening: Opening) -> Reader:
    return opening.open()


def open(
    source: Input,
    *,
    base: Bases = None,
    token: str | None = None,
    headers: dict[str, str] | None = None,
    retries: int | None = None,
    timeout: float | None = None,
    max_full_download_bytes: int | None = None,
    threads: int = 0,
    dense: bool = True,
    verify: Literal["stored", "full"] = "full",
) -> Reader:
    """Opens a model: a file in any format that zstn reads, the index of a model in
    several files, the first of several GGUF files, or a local folder that contains a
    single model. For a remote file, only the index is read, and later the ranges that
    are needed.

    Args:
        source: a path; an address (``https://``, ``hf://``, ``s3://``, ``gs://``,
            ``az://``, ``file://``, or any address that fsspec supports, if it is
            installed); a bytes-like object; a binary file object; a file of fsspec.
        base: the base of a delta, or a list of bases if the base is a delta itself.
        token: sent as ``Authorization: Bearer …`` to the host of `source` only.
        headers: sent to the host of `source` only.
        retries: how many times a request is retried after a transient failure.
        timeout: seconds that a server may take to respond.
        max_full_download_bytes: maximum length of a file that is downloaded whole if
            its server ignores range requests; 64 MiB by default, 0 for none.
        threads: number of threads that decode; 0 shares one thread per core with the
            whole process.
        dense: whether weights in a compressed-tensors format are decoded, and all of
            several GGUF files are opened; otherwise, parts of weights are separate
            tensors, and only the named file is opened.
        verify: the checks of tensors in ``.zstn`` files. ``"stored"`` compares the
            stored bytes with their checksums, which detects damage in transit and on
            disk. ``"full"`` also compares the decoded bytes with their digests.

    Raises:
        FileNotFoundError: if the file does not exist.
        ValueError: if `verify` has another value.
        ZstnError: if the file cannot be opened as a model.
    """
    if verify not in ("stored", "full"):
        raise ValueError(f'verify must be "stored" or "full", not {verify!r}')
    options: dict[str, Any] = {
        "base": base,
        "token": token,
        "headers": headers,
        "retries": retries,
        "timeout": timeout,
        "max_full_download_bytes": max_full_download_bytes,
        "threads": threads,
        "dense": flag("dense", dense),
        "verify": verify,
    }
    http = http_options(token, headers, retries, timeout, max_full_download_bytes)
    native = _native.Reader(source, base, http, dense, threads, verify == "full")
    LOGGER.debug("opened %s: %s, %d tensors", shown(native.name), native.kind, native.len())
    return Reader(native, Opening(source, options))
