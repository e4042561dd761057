"""A packed model as a file system of `fsspec`_, ``zstn://``, which decodes the bytes
that are read.

>>> import fsspec
>>> with fsspec.open("zstn://model.safetensors::s3://bucket/model.zstn") as file:
...     header = file.read(1024)
>>> fs = fsspec.filesystem("zstn", fo="model.zstn")
>>> fs.find("tensors")
['tensors/wte.weight']

.. _fsspec: https://filesystem-spec.readthedocs.io
"""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

try:
    from fsspec.asyn import AsyncFileSystem
    from fsspec.callbacks import DEFAULT_CALLBACK
    from fsspec.core import OpenFile
    from fsspec.spec import AbstractBufferedFile
    from fsspec.utils import isfilelike, tokenize
except ImportError as error:
    raise ImportError(
        "the file system zstn:// needs fsspec: `pip install 'zstn[fsspec]'`"
    ) from error

from . import _native
from ._archive import Archive, ArchiveSource, tensor_path
from ._threads import ProcessLock, executor
from ._sources import http_options

__all__ = ["ZstnFile", "ZstnFileSystem"]

#: Default capacity of the cache of decoded tensors, in bytes.
_CACHE_BYTES = 256 << 20
T = TypeVar("T")


def _is_distinct(fo: Any) -> bool:
    """Returns whether different values of `fo` have different representations as text.
    fsspec reuses a file system whose arguments have the same text, and the text of an
    array does not contain all of its elements."""
    return isinstance(fo, str | os.PathLike | bytes | bytearray | OpenFile) or isfilelike(fo)


class ZstnFileSystem(AsyncFileSystem):  # type: ignore[misc]
    """The content of a packed model, read-only:

    - ``model.safetensors``: the original file, byte for byte; ``model.gguf`` if that is a
      GGUF file, and so on for other formats. If the original cannot be read in ranges, or
      the model has several files, this is a safetensors file with all of its tensors.
    - ``tensors/NAME``: the bytes of a tensor, little-endian and row-major. In NAME,
      everything but letters, digits and ``_.-~`` is percent-encoded (`tensor_path`).
      `info` returns its ``tensor``, ``dtype`` and ``shape``.

    Ranges are decoded when they are read. A tensor that cannot be decoded partially, or
    that is read in consecutive ranges, is decoded once and cached.

    Several threads may use the file system at the same time, and so may coroutines,
    through the methods that begin with an underscore. It can be pickled if `fo` can.

    Args:
        fo: the model: a path, an address, a binary file object, a file of fsspec, or
            bytes. In a chained address, this is the part after ``::``.
        target_protocol: the fsspec file system that contains `fo`.
        target_options: options for that file system.
        base: the base of `fo`, if it is a delta.
        threads: number of threads that decode; 0 shares one thread per core with the
            whole process.
        cache_bytes: capacity of the cache of decoded tensors in bytes; a single larger
            tensor is cached, too.
    """

    protocol = "zstn"
    root_marker = ""
    # Synchronous calls do not use the thread of fsspec's event loop, which does not
    # exist after a fork.
    mirror_sync_methods = False

    def __init__(
        self,
        fo: Any = None,
        target_protocol: str | None = None,
        target_options: dict[str, Any] | None = None,
        *,
        base: Any = None,
        threads: int = 0,
        cache_bytes: int = _CACHE_BYTES,
        **storage_options: Any,
    ) -> None:
        super().__init__(**storage_options)
        if fo is None or (isinstance(fo, str) and not fo):
            raise ValueError(
                "zstn:// needs a packed file: `zstn://model.safetensors::FILE` as an "
                'address, or `fsspec.filesystem("zstn", fo=FILE)`'
            )
        if not _is_distinct(fo):
            raise TypeError(
                "zstn:// takes a path, an address, a file object or bytes, not "
                f"{type(fo).__name__}; use `bytes(…)`"
            )
        self._source = ArchiveSource(fo, target_protocol, target_options)
        self._base = base
        self._threads = threads
        self._cache_bytes = cache_bytes
        self._lock = ProcessLock()
        self._opened: Archive | None = None

    @staticmethod
    def tensor_path(name: str) -> str:
        """Returns the path of a tensor. Its name is percent-encoded as by
        ``urllib.parse.quote(name, safe="")``."""
        return tensor_path(name)

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        stripped = super()._strip_protocol(path)
        return stripped if isinstance(stripped, list) else stripped.strip("/")

    def _archive(self) -> Archive:
        version = self._source.version()
        archive = self._opened
        if archive is not None and archive.version == version:
            return archive
        with self._lock.get():
            archive = self._opened
            if archive is None or archive.version != version:
                source = self._source.open()
                reader = _native.Reader(
                    source, self._base, http_options(), False, self._threads
                )
                archive = self._opened = Archive(reader, version, self._cache_bytes)
            return archive

    def invalidate_cache(self, path: str | None = None) -> None:
        """Closes the model; the next read opens it again. If a local file has been
        replaced, this happens without a call of this method."""
        self._source.invalidate_cache()
        self._opened = None
        super().invalidate_cache(path)

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        return dict(self._archive().find(self._strip_protocol(path)))

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        found = self._archive().list(self._strip_protocol(path))
        return [dict(entry) if detail else entry["name"] for entry in found]

    def cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **_: Any
    ) -> bytes:
        archive = self._archive()
        entry = archive.find_file(self._strip_protocol(path))
        first, last, _step = slice(start, end).indices(entry["size"])
        return bytes(memoryview(archive.read(entry, first, max(first, last))))

    def cat_ranges(
        self,
        paths: list[str],
        starts: Any,
        ends: Any,
        max_gap: int | None = None,
        on_error: str = "return",
        **options: Any,
    ) -> list[Any]:
        if not self._source.is_remote or not isinstance(paths, list) or len(paths) < 2:
            return super().cat_ranges(paths, starts, ends, max_gap, on_error, **options)
        lists = [v if isinstance(v, list) else [v] * len(paths) for v in (starts, ends)]
        if len(lists[0]) != len(paths) or len(lists[1]) != len(paths):
            raise ValueError("a start and an end are needed for every path")
        reads = [
            executor().submit(self.cat_file, path, start, end)
            for path, start, end in zip(paths, *lists, strict=True)
        ]
        try:
            if on_error == "return":
                return [read.exception() or read.result() for read in reads]
            return [read.result() for read in reads]
        finally:
            for read in reads:
                read.cancel()

    def get_file(
        self,
        rpath: str,
        lpath: Any = None,
        callback: Any = DEFAULT_CALLBACK,
        outfile: Any = None,
        **_: Any,
    ) -> None:
        """Copies a file to an open file, or to the path `lpath`, where it appears only
        when it is complete."""
        rpath = self._strip_protocol(rpath)
        archive = self._archive()
        target: Any = lpath
        if outfile is None and isfilelike(lpath):
            outfile = lpath
        if outfile is not None:
            archive.copy(archive.find_file(rpath), outfile, callback)
            return
        path: str = os.fspath(target)
        if archive.find(rpath)["type"] == "directory":
            os.makedirs(path, exist_ok=True)
            return
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        unfinished = f"{path}.{os.getpid()}-{threading.get_ident()}.part"
        try:
            with open(unfinished, "wb") as file:
                archive.copy(archive.find_file(rpath), file, callback)
            os.replace(unfinished, path)
        except BaseException:
            if os.path.exists(unfinished):
                os.remove(unfinished)
            raise

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | None = None,
        autocommit: bool = True,
        cache_options: dict[str, Any] | None = None,
        **options: Any,
    ) -> ZstnFile:
        if mode != "rb":
            raise _read_only(path)
        archive = self._archive()
        return ZstnFile(
            self,
            archive,
            archive.find_file(path),
            block_size=block_size or ZstnFile.DEFAULT_BLOCK_SIZE,
            cache_options=cache_options,
            **options,
        )

    def rm_file(self, path: str) -> None:
        raise _read_only(path)

    def cp_file(self, path1: str, path2: str, **_: Any) -> None:
        raise _read_only(path2)

    async def _info(self, path: str, **options: Any) -> dict[str, Any]:
        return await _in_thread(self.info, path, **options)

    async def _ls(self, path: str, detail: bool = True, **options: Any) -> list[Any]:
        return await _in_thread(self.ls, path, detail, **options)

    async def _cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **options: Any
    ) -> bytes:
        return await _in_thread(self.cat_file, path, start, end, **options)

    async def _get_file(self, rpath: str, lpath: Any, **options: Any) -> None:
        await _in_thread(self.get_file, rpath, lpath, **options)

    def ukey(self, path: str) -> str:
        """Returns a text that changes when the packed file changes."""
        path = self._strip_protocol(path)
        version = self._source.ukey() or self._fs_token
        return tokenize(version, path)

    def checksum(self, path: str) -> int:
        return int(self.ukey(path), 16)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._source.name}>"

    __str__ = __repr__


class ZstnFile(AbstractBufferedFile):  # type: ignore[misc]
    """A file of a packed model, open for reading."""

    DEFAULT_BLOCK_SIZE = 1 << 20

    def __init__(
        self, fs: ZstnFileSystem, archive: Archive, entry: dict[str, Any], **options: Any
    ) -> None:
        # All reads use the same version of the packed file.
        self._archive = archive
        self._entry = entry
        options["size"] = entry["size"]
        super().__init__(fs, entry["name"], "rb", **options)

    def _fetch_range(self, start: int, end: int) -> bytes:
        end = min(end, self._entry["size"])
        return bytes(memoryview(self._archive.read(self._entry, min(start, end), end)))


def _read_only(path: str) -> OSError:
    return OSError(errno.EROFS, "zstn:// is for reading; zstn.pack writes models", path)


async def _in_thread(call: Callable[..., T], *args: Any, **options: Any) -> T:
    # The loop's own executor is not used: the file system that contains the packed file
    # may need one of its threads, and would wait for it forever.
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(executor(), partial(call, *args, **options))
