"""Opened models."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from . import _native
from ._errors import TensorNotFoundError, ZstnError
from ._frameworks import Maker, find, to_numpy
from ._slices import plan
from ._sources import http_options
from ._statistics import Figures, Statistics


class Slice:
    """A tensor that is read when it is indexed, and only the rows that are
    needed: ``reader.slice(name)[10:20, :, 3]``.

    Slices may have any step. Other indices of NumPy, such as lists, read the
    whole tensor first.
    """

    def __init__(
        self, reader: _native.Reader, info: _native.TensorInfo, make: Maker, device: Any
    ) -> None:
        self._reader = reader
        self._info = info
        self._make = make
        self._device = device

    @property
    def dtype(self) -> str:
        return self._info.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return self._info.shape

    def get_shape(self) -> list[int]:
        return list(self._info.shape)

    def get_dtype(self) -> str:
        return self._info.dtype

    def __getitem__(self, index: Any) -> Any:
        info = self._info
        planned = plan(index, info.shape)
        if planned is None:
            memory: Any = self._reader.read(info.name)
            return self._make(memory, info.dtype, info.shape, self._device)[index]
        picks, shape = planned
        memory = self._reader.read_slice(info.name, picks)
        return self._make(memory, info.dtype, shape, self._device)

    def __repr__(self) -> str:
        return f"<zstn.Slice of {self._info!r}>"


class Reader:
    """An opened model, from `zstn.open`. It maps names to what its index says
    of each tensor. Threads may use it at the same time."""

    def __init__(self, native: _native.Reader) -> None:
        self._native = native

    @property
    def name(self) -> str:
        """The path or address it was opened by."""
        return self._native.name

    @property
    def kind(self) -> str:
        """The kind of file, such as ``"zstn"`` or ``"safetensors"``."""
        return self._native.kind

    @property
    def metadata(self) -> dict[str, str]:
        """The ``__metadata__`` of the safetensors header."""
        return self._native.metadata()

    def keys(self) -> list[str]:
        """Returns the names of all tensors, in the order of the index. Tensors
        that cannot be read come last; reading one raises the reason."""
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
            # It is there, but cannot be read.
            return True

    def __getitem__(self, name: str) -> _native.TensorInfo:
        info = self._native.find(name)
        if info is None:
            # Reading says which names are alike.
            self._native.read(name)
            raise TensorNotFoundError(f"{self.name} has no tensor {name}")
        return info

    def read(self, name: str) -> _native.Buffer:
        """Reads the bytes of a tensor, little-endian and row-major."""
        return self._native.read(name)

    def numpy(self, name: str) -> Any:
        """Reads a tensor as a NumPy array that owns its memory."""
        info = self[name]
        return to_numpy(self._native.read(name), info.dtype, info.shape)

    def tensor(self, name: str, framework: str = "numpy", device: Any = "cpu") -> Any:
        """Reads a tensor as one of a framework: ``"numpy"``, ``"torch"``,
        ``"jax"``, ``"mlx"``, …"""
        info = self[name]
        return find(framework)[1](self._native.read(name), info.dtype, info.shape, device)

    def slice(self, name: str, framework: str = "numpy", device: Any = "cpu") -> Slice:
        """Returns a tensor that is read when it is indexed."""
        return Slice(self._native, self[name], find(framework)[1], device)

    def statistics(self, name: str) -> Statistics | None:
        """Returns the statistics of a tensor that were stored when the file was
        packed, with those of its bands of rows. `None` if there are none: in files
        of other formats than ZSTN or packed without them, for tensors without
        elements, for weights stored in parts, and for ``F4``, ``F6_E2M3``,
        ``F6_E3M2`` and ``C64``."""
        found = self._native.statistics(name)
        if found is None:
            return None
        summary, rows_per_band, bands = found
        return Statistics(Figures(*summary), rows_per_band, [Figures(*band) for band in bands])

    def summaries(self) -> dict[str, Figures]:
        """Returns the figures of all tensors that have statistics. They came with
        the index: nothing is read."""
        return {name: Figures(*figures) for name, figures in self._native.summaries()}

    def close(self) -> None:
        """Closes the files."""
        self._native.close()

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._native.is_closed:
            return "<zstn.Reader, closed>"
        return f"<zstn.Reader of {self.name}: {self.kind}, {len(self)} tensors>"


def open(
    source: Any,
    *,
    base: Any = None,
    token: str | None = None,
    headers: dict[str, str] | None = None,
    retries: int | None = None,
    timeout: float | None = None,
    max_full_download_bytes: int | None = None,
    threads: int = 0,
    dense: bool = True,
    verify: Literal["stored", "full"] = "full",
) -> Reader:
    """Opens a model: a file of any kind that zstn reads, the index of a model
    in several files, or a local folder that holds one. Of a remote file it
    reads the index, and then what is asked for.

    Args:
        source: a path; an address (``https://``, ``hf://``, ``s3://``,
            ``gs://``, ``az://``, ``file://``, or any of fsspec if that is
            installed); a bytes-like object; a binary file object; a file of
            fsspec.
        base: the model that a delta was packed against, or a list of them
            where the base is a delta itself.
        token: sent as ``Authorization: Bearer …`` to the host of `source` only.
        headers: sent to the host of `source` only.
        retries: how often a request is repeated after a failure that may pass.
        timeout: seconds that a server may take to answer.
        max_full_download_bytes: the longest file that is read whole if its server
            ignores range requests; 64 MiB by default, 0 for none.
        threads: the threads that decode; 0 shares one per core with the process.
        dense: whether weights in the formats of compressed-tensors are read
            dense.
        verify: what tensors of ``.zstn`` files are compared with. ``"stored"``:
            the checksums of their stored bytes, which detect damage on the way
            and on disk. ``"full"``: the digests of the decoded bytes as well.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if `verify` is something else.
        ZstnError: if the file is refused.
    """
    if verify not in ("stored", "full"):
        raise ValueError(f'verify is "stored" or "full", not {verify!r}')
    http = http_options(token, headers, retries, timeout, max_full_download_bytes)
    return Reader(_native.Reader(source, base, http, dense, threads, verify == "full"))
