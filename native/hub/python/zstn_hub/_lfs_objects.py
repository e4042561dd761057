"""A folder of git-lfs objects, which are packed if that makes them smaller
(docs/formats/lfs-objects.md)."""

from __future__ import annotations

import hashlib
import io
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from zstn import ZstnError, _native, pack, unpack
from zstn import open as open_model
from zstn._sources import http_options

_PACKED = b"ZSTN"
_ENVELOPE = b"ZLFS\x01\0\0\0"
_ENVELOPE_MAGIC = b"ZLFS"

#: Number of bytes that are copied or decoded at a time.
PIECE_BYTES = 1 << 20

_OID = re.compile("[0-9a-f]{64}")


class ObjectError(Exception):
    """The bytes are not the bytes of the named object, or have been damaged."""


class ObjectFolder:
    """A folder of objects. Each is a separate file that appears only when it is complete
    and has been checked.

    Args:
        path: the folder; it is created if it is missing.
        cache_bytes: capacity of the cache of decoded tensors for each object that is
            being read; a single larger tensor is cached, too.
    """

    def __init__(self, path: str | os.PathLike[str], cache_bytes: int = 64 << 20) -> None:
        self._path = Path(path)
        self._path.mkdir(parents=True, exist_ok=True)
        self._cache_bytes = cache_bytes

    def path(self, prefix: str, oid: str) -> Path:
        """Returns the path of an object, whether or not it exists."""
        parts = prefix.split("/")
        if not _OID.fullmatch(oid) or not all(map(_is_name, parts)):
            raise ObjectError("the prefix or the digest of the object is not valid")
        return self._path.joinpath(*parts, oid[:2], oid[2:4], oid)

    def exists(self, prefix: str, oid: str) -> bool:
        return self.path(prefix, oid).is_file()

    def add_stored(self, prefix: str, oid: str, stream: IO[bytes]) -> None:
        """Adds an object in the form that the git-lfs agent of zstn sends: packed or
        original."""
        target = self.path(prefix, oid)
        with _unfinished(target) as path:
            with path.open("wb") as file:
                _copy(stream, file)
            with Original(path, self._cache_bytes) as original:
                # The agent does not accept longer objects.
                if path.stat().st_size > original.size + len(_ENVELOPE):
                    raise ObjectError("the uploaded packed object is longer than its original")
                digest = original.digest()
            _check(digest, oid)
            _publish(path, target)

    def add_plain(self, prefix: str, oid: str, stream: IO[bytes]) -> None:
        """Adds an object that a client without the agent sends, and packs it."""
        target = self.path(prefix, oid)
        with _unfinished(target) as path, _unfinished(target) as packed:
            with path.open("wb") as file:
                digest = _copy(stream, file)
            _check(digest, oid)
            if _is_smaller_packed(path, packed) and self._holds(packed, oid):
                _publish(packed, target)
                return
            with path.open("rb") as file:
                head = file.read(len(_ENVELOPE))
                if not head.startswith((_PACKED, _ENVELOPE_MAGIC)):
                    _publish(path, target)
                    return
                file.seek(0)
                with packed.open("wb") as enveloped:
                    enveloped.write(_ENVELOPE)
                    _copy(file, enveloped)
            _publish(packed, target)

    def _holds(self, path: Path, oid: str) -> bool:
        """Returns whether unpacking the file yields the object, since the file may
        become the object's only copy."""
        try:
            with Original(path, self._cache_bytes) as original:
                return original.digest() == oid
        except ObjectError:
            return False

    def open_original(self, prefix: str, oid: str) -> Original:
        """Opens the original of an object. Raises `FileNotFoundError` if the object is
        missing."""
        return Original(self.path(prefix, oid), self._cache_bytes)


class Original(io.RawIOBase):
    """The original of a stored object as a file that is decoded on demand."""

    def __init__(self, path: Path, cache_bytes: int) -> None:
        super().__init__()
        self._position = 0
        self._start = 0
        self._view: _native.SafetensorsView | None = None
        self._file: IO[bytes] = path.open("rb")
        head = self._file.read(len(_ENVELOPE))
        if head.startswith(_PACKED):
            self._open_packed(path, cache_bytes)
            return
        if head == _ENVELOPE:
            self._start = len(_ENVELOPE)
        elif head.startswith(_ENVELOPE_MAGIC):
            self._file.close()
            raise ObjectError(f"{path} is in a format of a newer version of zstn")
        self.size = os.fstat(self._file.fileno()).st_size - self._start

    def _open_packed(self, path: Path, cache_bytes: int) -> None:
        try:
            reader = _native.Reader(str(path), None, http_options(), False, 0)
            view = _native.SafetensorsView(reader, cache_bytes)
            if view.is_original:
                self._view = view
                self.size = view.size
                return
        except ZstnError:
            # The object is packed as a single frame and can only be restored
            # completely.
            pass
        self._file.close()
        self._file = tempfile.TemporaryFile()
        try:
            with tempfile.TemporaryDirectory() as folder:
                restored = Path(folder, "original")
                unpack(str(path), str(restored))
                with restored.open("rb") as file:
                    _copy(file, self._file)
            self.size = self._file.tell()
        except ZstnError as error:
            self._file.close()
            raise ObjectError(str(error)) from error

    def close(self) -> None:
        if not self.closed:
            self._file.close()
            self._view = None
        super().close()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self.size}
        self._position = max(base[whence] + offset, 0)
        return self._position

    def readinto(self, buffer: Any) -> int:
        target = memoryview(buffer).cast("B")
        end = min(self._position + len(target), self.size)
        length = max(end - self._position, 0)
        if length == 0:
            return 0
        if self._view is not None:
            try:
                target[:length] = memoryview(self._view.read(self._position, end))
            except ZstnError as error:
                raise ObjectError(str(error)) from error
        else:
            self._file.seek(self._start + self._position)
            bytes_read = self._file.read(length)
            length = len(bytes_read)
            target[:length] = bytes_read
        self._position += length
        return length

    def pieces(self) -> Iterator[bytes]:
        while piece := self.read(PIECE_BYTES):
            yield piece

    def digest(self) -> str:
        """Returns the SHA-256 of the remaining bytes."""
        digest = hashlib.sha256()
        for piece in self.pieces():
            digest.update(piece)
        return digest.hexdigest()


def _is_name(part: str) -> bool:
    return part not in ("", ".", "..") and not set(part) & set("/\\\0")


def _check(found: str, oid: str) -> None:
    if found != oid:
        raise ObjectError(f"the bytes that were sent have the SHA-256 {found}, not {oid}")


def _copy(source: IO[bytes], target: IO[bytes]) -> str:
    """Copies the rest of a stream, and returns its SHA-256."""
    digest = hashlib.sha256()
    while piece := source.read(PIECE_BYTES):
        digest.update(piece)
        target.write(piece)
    return digest.hexdigest()


def _is_model(path: Path) -> bool:
    """Returns whether a file is a model whose format is recognised without its name. Only
    the list of its tensors is read."""
    with path.open("rb") as file:
        start = file.read(9)
    # A safetensors file is packed even if its header breaks the rules: after the length of
    # the header, it begins with an object or with spaces.
    header_bytes = int.from_bytes(start[:8], "little")
    if start[8:] in (b"{", b" ") and header_bytes <= path.stat().st_size - 8:
        return True
    try:
        open_model(str(path)).close()
    except ZstnError:
        return False
    return True


def _is_smaller_packed(path: Path, packed: Path) -> bool:
    """Packs a file if it is a model; returns whether the result is smaller."""
    if not _is_model(path):
        return False
    try:
        report = pack(str(path), str(packed))
    except ZstnError:
        return False
    is_model = all(file.original_kind != "bytes" for file in report.files)
    return is_model and report.packed_bytes < report.original_bytes


@contextmanager
def _unfinished(target: Path) -> Iterator[Path]:
    """Yields a temporary path in the object's folder, and removes a file that remains
    there."""
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=".", suffix=".part", dir=target.parent)
    os.close(handle)
    try:
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


def _publish(path: Path, target: Path) -> None:
    """Renames a file to its final path, unless the object already exists."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
    path.chmod(0o644)
    if not target.exists():
        path.replace(target)
