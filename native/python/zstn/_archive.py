"""The files that the file system ``zstn://`` shows for a packed model."""

from __future__ import annotations

import errno
import os
from typing import Any
from urllib.parse import quote

from fsspec.core import OpenFile, filesystem, url_to_fs
from fsspec.implementations.local import LocalFileSystem

from . import _native
from ._sources import is_remote

_TENSORS = "tensors"

#: Number of bytes that are copied to another file at a time.
_COPIED_BYTES = 32 << 20


class ArchiveSource:
    """The packed file that is the argument of a `ZstnFileSystem`."""

    def __init__(
        self, fo: Any, protocol: str | None, options: dict[str, Any] | None
    ) -> None:
        self._fo = fo
        self._fs: Any = None
        self._path: str | None = None
        if isinstance(fo, OpenFile):
            self._fs, self._path = fo.fs, fo.path
        elif isinstance(fo, str | os.PathLike):
            fo = os.fspath(fo)
            if protocol:
                self._fs = filesystem(protocol, **(options or {}))
                self._path = self._fs._strip_protocol(fo)
            elif options or "::" in fo:
                self._fs, self._path = url_to_fs(fo, **(options or {}))
            elif "://" not in fo:
                self._path = fo
        if isinstance(self._fs, LocalFileSystem):
            # zstn opens local files itself, which lets it map them into memory.
            self._fs = None

    @property
    def name(self) -> str:
        return self._path if self._path is not None else str(self._fo)

    @property
    def is_remote(self) -> bool:
        if self._fs is not None:
            return is_remote(self._fs)
        return self._path is None and isinstance(self._fo, str)

    def open(self) -> Any:
        """Returns an argument for `zstn.open`."""
        if self._fs is not None:
            return OpenFile(self._fs, self._path)
        return self._path if self._path is not None else self._fo

    def version(self) -> Any:
        """Returns a value that changes when the file at the path is replaced; `None` if
        finding out would take a request."""
        if self._fs is not None or self._path is None:
            return None
        status = os.stat(self._path)
        return status.st_ino, status.st_size, status.st_mtime_ns

    def ukey(self) -> str | None:
        """Returns the key of the file in its own file system, if it has one."""
        if self._path is None:
            return None
        return (self._fs or LocalFileSystem()).ukey(self._path)

    def invalidate_cache(self) -> None:
        if self._fs is not None:
            self._fs.invalidate_cache()


class Archive:
    """An opened model, shown as files."""

    def __init__(self, reader: _native.Reader, version: Any, cache_bytes: int) -> None:
        self.version = version
        self._reader = reader
        self._view = _native.SafetensorsView(reader, cache_bytes)
        name = "model.safetensors"
        if self._view.is_original and reader.original_extension is not None:
            name = f"model.{reader.original_extension}"
        original = {"name": name, "type": "file", "size": self._view.size}
        if self._view.is_original and reader.original_sha256:
            original["sha256"] = reader.original_sha256
        self._root = [original, {"name": _TENSORS, "type": "directory", "size": 0}]
        self._tensors = [self._entry(name) for name in sorted(reader.keys())]
        self._files = {entry["name"]: entry for entry in (original, *self._tensors)}

    def _entry(self, name: str) -> dict[str, Any]:
        info = self._reader.find(name)
        assert info is not None
        return {
            "name": tensor_path(name),
            "type": "file",
            "size": info.nbytes,
            "tensor": name,
            "dtype": info.dtype,
            "shape": info.shape,
        }

    def find(self, path: str) -> dict[str, Any]:
        """Returns the entry of a file or a folder."""
        if path == "":
            return {"name": "", "type": "directory", "size": 0}
        if path == _TENSORS:
            return self._root[1]
        if (entry := self._files.get(path)) is not None:
            return entry
        detail = f"{self._reader.name} has no file {path}"
        folder, _, name = path.partition("/")
        if folder == _TENSORS and (other := tensor_path(name)) in self._files:
            detail += f"; that tensor is {other}"
        raise FileNotFoundError(errno.ENOENT, detail)

    def find_file(self, path: str) -> dict[str, Any]:
        entry = self.find(path)
        if entry["type"] == "directory":
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return entry

    def list(self, path: str) -> list[dict[str, Any]]:
        """Returns the entries of a folder, or the entry of a file in a list."""
        if path == "":
            return self._root
        if path == _TENSORS:
            return self._tensors
        return [self.find(path)]

    def read(self, entry: dict[str, Any], start: int, end: int) -> _native.Buffer:
        """Reads a range of a file."""
        if "tensor" in entry:
            return self._view.read_tensor(entry["tensor"], start, end)
        return self._view.read(start, end)

    def copy(self, entry: dict[str, Any], file: Any, callback: Any) -> None:
        """Writes a whole file to `file`, and reports the progress to an fsspec
        callback."""
        size = entry["size"]
        callback.set_size(size)
        for start in range(0, size, _COPIED_BYTES):
            end = min(start + _COPIED_BYTES, size)
            file.write(memoryview(self.read(entry, start, end)))
            callback.relative_update(end - start)


def tensor_path(name: str) -> str:
    """Returns the path of a tensor. Its name is percent-encoded, so that it is a single
    file name."""
    # `quote` returns none of these values for another name.
    special = {"": "%", ".": "%2E", "..": "%2E%2E"}
    return f"{_TENSORS}/{special.get(name) or quote(name, safe='')}"
