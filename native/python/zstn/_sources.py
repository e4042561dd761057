"""Inputs: paths, addresses, memory, file objects and files of fsspec."""

from __future__ import annotations

import io
import os
import sys
import threading
from typing import Any

from ._log import is_debugging
from ._options import count, seconds, text, texts

_SCHEMES = frozenset(
    "https http hf file s3 s3a gs az abfs abfss memory".split()
)


def http_options(
    token: str | None = None,
    headers: dict[str, str] | None = None,
    retries: int | None = None,
    timeout: float | None = None,
    max_full_download_bytes: int | None = None,
) -> dict[str, Any]:
    """Returns the HTTP options in the form that the native module accepts."""
    return {
        "token": text("token", token),
        "headers": texts("headers", headers),
        "retries": count("retries", retries, most=(1 << 32) - 1),
        "timeout": seconds("timeout", timeout),
        "max_full_download_bytes": count("max_full_download_bytes", max_full_download_bytes),
        "is_logged": is_debugging(),
    }


def resolve(source: Any) -> tuple[str, Any]:
    """Returns the type and the value of an input, for the native module."""
    value: Any = source
    if isinstance(source, os.PathLike) and not is_open_file(source):
        value = os.fspath(source)
    if isinstance(value, bytes | bytearray | memoryview):
        return "memory", value
    if isinstance(value, str):
        return _resolve_text(value)
    if is_open_file(value):
        return "object", FsspecSource(value.fs, value.path)
    if hasattr(value, "read") and hasattr(value, "seek"):
        return _resolve_file(value)
    try:
        memoryview(value).release()
        return "memory", value
    except (TypeError, ValueError):
        pass
    raise TypeError(
        "an input is a path, an address, a bytes-like object, a binary file object "
        f"or a file of fsspec, not {type(value).__name__}"
    )


def resolve_kind(source: str | os.PathLike[str]) -> str:
    """Returns ``"path"`` if this is the path of a local file, and ``"address"``
    otherwise."""
    text = os.fspath(source)
    return "path" if not isinstance(text, str) or "://" not in text else "address"


def _resolve_text(address: str) -> tuple[str, Any]:
    # "::" chains file systems of fsspec.
    scheme, separator, _ = address.partition("://")
    if not separator or not scheme[:1].isalpha():
        return "path", address
    if "::" in address:
        return "object", _of_url(address)
    if scheme.lower() in _SCHEMES:
        return "url", address
    if not all(letter.isalnum() or letter in "+-." for letter in scheme):
        return "path", address
    try:
        return "object", _of_url(address)
    except ValueError:
        # The native module's error lists the supported addresses.
        return "url", address


def _of_url(url: str) -> FsspecSource:
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        known = ", ".join(f"{scheme}://" for scheme in sorted(_SCHEMES))
        # The rest of the address may contain a password.
        scheme = url.partition(":")[0]
        raise ImportError(
            f"addresses such as {scheme}:… need fsspec: `pip install fsspec`. "
            f"Without it, zstn reads {known}, if the address does not contain `::`"
        ) from error
    fs, path = url_to_fs(url)
    return FsspecSource(fs, path)


def is_open_file(source: Any) -> bool:
    """Returns whether this is a return value of ``fsspec.open``."""
    core = sys.modules.get("fsspec.core")
    return core is not None and isinstance(source, core.OpenFile)


def _resolve_file(file: Any) -> tuple[str, Any]:
    if isinstance(file, io.TextIOBase):
        raise TypeError("the file is open for text; open it with mode \"rb\"")
    if isinstance(file, io.BytesIO):
        return "memory", file.getbuffer()
    spec = sys.modules.get("fsspec.spec")
    if spec is not None and isinstance(file, spec.AbstractBufferedFile):
        # Reading by range avoids the file's read-ahead buffer.
        return "object", FsspecSource(file.fs, file.path)
    return "object", FileSource(file)


def _shown(name: str) -> str:
    """Returns a name for messages: an address without user, password and query."""
    scheme, separator, rest = name.partition("://")
    if scheme not in ("http", "https"):
        return name
    place, query, _ = rest.partition("#")[0].partition("?")
    host, slash, path = place.partition("/")
    return f"{scheme}{separator}{host.rpartition('@')[2]}{slash}{path}{'?…' if query else ''}"


class FileSource:
    """A seekable file object, which only one thread reads at a time."""

    is_remote = False

    def __init__(self, file: Any) -> None:
        self._file = file
        self._lock = threading.Lock()
        name = getattr(file, "name", None)
        self.name = _shown(name) if isinstance(name, str) else f"<{type(file).__name__}>"
        file.seek(0, os.SEEK_END)
        self.size = file.tell()

    def read_ranges(self, ranges: list[tuple[int, int]]) -> list[bytes]:
        with self._lock:
            return [self._read(start, end) for start, end in ranges]

    def _read(self, start: int, end: int) -> bytes:
        self._file.seek(start)
        parts = []
        missing = end - start
        while missing > 0:
            part = self._file.read(missing)
            if not part:
                raise EOFError(
                    f"{self.name} ended {missing} bytes before {end}; it was {self.size} bytes long"
                )
            parts.append(part)
            missing -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)


class FsspecSource:
    """A file in a file system of fsspec."""

    def __init__(self, fs: Any, path: str) -> None:
        self._fs = fs
        self._path = path
        self.name = _shown(f"{_protocol(fs)}://{path}" if "://" not in path else path)
        info = fs.info(path)
        if info.get("type") == "directory":
            raise IsADirectoryError(f"{self.name} is a folder; give the address of a file")
        size = info.get("size")
        if size is None:
            from ._errors import ZstnError

            raise ZstnError(
                f"{self.name}: the file system does not state its length; copy it first",
                "io",
            )
        self.size = size
        self.is_remote = is_remote(fs)

    def read_ranges(self, ranges: list[tuple[int, int]]) -> list[bytes]:
        # Ends are exclusive. Empty ranges are not requested, because some servers
        # return the whole file for them.
        wanted = [(start, end) for start, end in ranges if start < end]
        paths = [self._path] * len(wanted)
        starts, ends = [start for start, _ in wanted], [end for _, end in wanted]
        if wanted:
            read = iter(self._fs.cat_ranges(paths, starts, ends, on_error="raise"))
        else:
            read = iter(())
        return [next(read) if start < end else b"" for start, end in ranges]


def is_remote(fs: Any) -> bool:
    """Returns whether reads from a file system of fsspec mostly wait for a server."""
    return _protocol(fs) not in ("file", "local", "memory")


def _protocol(fs: Any) -> str:
    return fs.protocol if isinstance(fs.protocol, str) else fs.protocol[0]
