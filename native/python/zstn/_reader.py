"""Opened models."""

from __future__ import annotations

import math
import os
import pickle
import threading
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from . import _gpu, _native
from ._errors import TensorNotFoundError, ZstnError
from ._frameworks import find, is_cpu, numpy_dtype, to_numpy
from ._log import LOGGER, shown
from ._options import flag
from ._reports import Figures, Statistics
from ._slices import has_whole_bytes, plan
from ._sources import http_options, is_open_file, resolve_kind
from ._types import Bases, Input, JaxName, NumpyArray, NumpyName, TorchName

if TYPE_CHECKING:
    import jax
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
        self._library, self._make = find(framework, device)
        self._on_gpu = on_gpu
        self._device = device
        self._opening = opening

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy dtype; `get_dtype` returns the safetensors dtype.

        Raises:
            AttributeError: if NumPy has no such dtype.
        """
        try:
            return numpy_dtype(self._info.dtype)
        except TypeError as error:
            # `hasattr` and `inspect` expect this type.
            raise AttributeError(str(error)) from None

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
        """The length in bytes, with two ``F4`` elements per byte."""
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
        if planned is None or (planned.rest is not None and not has_whole_bytes(info, planned)):
            memory = self._reader.read(info.name)
            return self._make(memory, info.dtype, info.shape, self._device)[index]
        memory = self._reader.read_slice(info.name, planned.picks)
        tensor = self._make(memory, info.dtype, planned.shape, self._device)
        return tensor if planned.rest is None else tensor[planned.rest]

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
        fields = self._info, self._framework, self._device, self._on_gpu
        return _slice_again, (self._opening, *fields)

    def __dask_tokenize__(self) -> Any:
        """Returns a value that names the content for Dask, which would otherwise open the
        model to compute one."""
        info = self._info
        return self._opening.identity(), info.name, info.dtype, info.shape, self._framework

    def __repr__(self) -> str:
        return f"<zstn.Slice of {self._info!r}>"


class Opening:
    """The arguments with which a model was opened, to open it again in another process.
    A pickle contains neither token nor headers."""

    _SECRETS = ("token", "headers")

    def __init__(
        self,
        source: Any,
        base: Any = None,
        options: dict[str, Any] | None = None,
        omitted: tuple[str, ...] = (),
    ) -> None:
        bases = base if isinstance(base, list | tuple) else [base]
        self.source = _absolute(source)
        self._bases = [_absolute(base) for base in bases if base is not None]
        self._options = options or {}
        self._omitted = omitted
        self._opened: _native.Reader | None = None
        self._lock = threading.Lock()

    def open(self) -> Reader:
        try:
            return open(self.source, base=self._bases or None, **self._options)
        except (ZstnError, OSError) as error:
            if self._omitted:
                error.add_note(
                    f"the {' and '.join(self._omitted)} with which the model was opened are not "
                    "part of its pickle: open it again in this process, or set HF_TOKEN for hf://"
                )
            raise

    def open_shared(self) -> _native.Reader:
        """Opens the model once for all slices that were in the same pickle."""
        with self._lock:
            if self._opened is None:
                self._opened = self.open()._native
            return self._opened

    def identity(self) -> list[Any]:
        """Returns a value that is equal for two openings of the same files."""
        return [_identity(source) for source in (self.source, *self._bases)]

    def __reduce__(self) -> Any:
        for source in (self.source, *self._bases):
            if not _can_reopen(source):
                raise pickle.PicklingError(
                    f"a model that was opened from an object of type {type(source).__name__} "
                    "cannot be pickled: open it by its path or address"
                )
        options, omitted = dict(self._options), list(self._omitted)
        for name in self._SECRETS:
            if options.pop(name, None):
                omitted.append(name)
        return Opening, (self.source, self._bases, options, tuple(omitted))


def _can_reopen(source: Any) -> bool:
    return isinstance(source, str | os.PathLike) or is_open_file(source)


def _absolute(source: Any) -> Any:
    """Returns an absolute path for a path, and any other source unchanged."""
    if is_open_file(source) or not isinstance(source, str | os.PathLike):
        return source
    return os.path.abspath(source) if resolve_kind(source) == "path" else source


def _identity(source: Any) -> Any:
    if not isinstance(source, str | os.PathLike) or is_open_file(source):
        # Memory and file objects may change.
        return uuid.uuid4().hex
    place = _absolute(source)
    if resolve_kind(source) != "path":
        return place
    status = os.stat(place)
    return place, status.st_size, status.st_mtime_ns


def _slice_again(
    opening: Opening, info: _native.TensorInfo, framework: str, device: Any, on_gpu: bool
) -> Slice[Any]:
    return Slice(opening.open_shared(), info, framework, device, opening, on_gpu=on_gpu)


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
        """The metadata of the file as text: ``__metadata__`` of a safetensors header, or
        the metadata of another format. A packed file has the metadata of its original; if
        that is not safetensors, the first access reads them."""
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
        except ZstnError as error:
            if error.code == "closed":
                raise
            # The tensor exists but cannot be read.
            return True

    def __getitem__(self, name: str) -> _native.TensorInfo:
        info = self._native.find(tensor_name(name))
        if info is None:
            # The error of `read` suggests similar names.
            self._native.read(name)
            raise TensorNotFoundError(f"{self.name} has no tensor {name}")
        return info

    def read(self, name: str) -> _native.Buffer:
        """Reads the bytes of a tensor, little-endian and row-major."""
        return self._native.read(tensor_name(name))

    def numpy(self, name: str) -> NumpyArray:
        """Reads a tensor as a NumPy array that owns its memory."""
        info = self[name]
        return to_numpy(self._native.read(name), info.dtype, info.shape)

    @overload
    def tensor(
        self, name: str, framework: NumpyName = "numpy", device: Any = "cpu"
    ) -> NumpyArray: ...
    @overload
    def tensor(
        self, name: str, framework: TorchName, device: Any = "cpu"
    ) -> torch.Tensor: ...
    @overload
    def tensor(
        self, name: str, framework: JaxName, device: Any = "cpu"
    ) -> jax.Array: ...
    @overload
    def tensor(
        self, name: str, framework: str, device: Any = "cpu"
    ) -> Any: ...
    def tensor(self, name: str, framework: str = "numpy", device: Any = "cpu") -> Any:
        """Reads a tensor as a tensor of a framework: ``"numpy"``, ``"torch"``,
        ``"jax"``, ``"mlx"``, …

        Raises:
            ZstnError: with the code ``"usage"``, if tensors of the framework cannot be put
                on the device.
        """
        info, make = self[name], find(framework, device)[1]
        return make(self._native.read(name), info.dtype, info.shape, device)

    @overload
    def slice(
        self, name: str, framework: NumpyName = "numpy", device: Any = "cpu"
    ) -> Slice[NumpyArray]: ...
    @overload
    def slice(
        self, name: str, framework: TorchName, device: Any = "cpu"
    ) -> Slice[torch.Tensor]: ...
    @overload
    def slice(
        self, name: str, framework: JaxName, device: Any = "cpu"
    ) -> Slice[jax.Array]: ...
    @overload
    def slice(
        self, name: str, framework: str, device: Any = "cpu"
    ) -> Slice[Any]: ...
    def slice(self, name: str, framework: str = "numpy", device: Any = "cpu") -> Slice[Any]:
        """Returns a tensor that is read only when it is indexed."""
        return Slice(self._native, self[name], framework, device, self._opening)

    def statistics(self, name: str) -> Statistics | None:
        """Returns the statistics of a tensor and of its bands of rows, which were
        stored when the file was packed. Returns `None` if there are none: in other
        formats than ZSTN, in files packed without statistics, for tensors without
        elements, for weights that are stored as several tensors, and for ``F4``,
        ``F6_E2M3``, ``F6_E3M2`` and ``C64``."""
        found = self._native.statistics(tensor_name(name))
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
        """Pickles the arguments with which the model was opened, without token and
        headers; another process opens it again.

        Raises:
            pickle.PicklingError: if the model was opened from memory or a file object.
        """
        return _reader_again, (self._opening,)

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._native.is_closed:
            return "<zstn.Reader, closed>"
        return f"<zstn.Reader of {self.name}: {self.kind}, {len(self)} tensors>"


def tensor_name(name: Any) -> str:
    if not isinstance(name, str):
        raise TypeError(f"the name of a tensor is a string, not {name!r}")
    return name


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
            installed, except ``memory://``, which is zstn's own store inside the process);
            a bytes-like object; a binary file object; a file of fsspec.
        base: the base of a delta, or a list of bases if the base is a delta itself or the
            delta was packed against several.
        token: sent as ``Authorization: Bearer …`` to the host of `source` only.
        headers: sent to the host of `source` only.
        retries: how many times a request is retried after a transient failure; 3 by
            default.
        timeout: seconds that a server may take to respond, and for every 32 KiB of a
            body; 30 by default. (``--timeout`` of the command line limits all attempts.)
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
    return Reader(native, Opening(source, base, options))
