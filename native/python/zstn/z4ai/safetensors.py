"""Packed checkpoints, like the module ``z4ai.safetensors``."""

from __future__ import annotations

import io
import json
import struct
from pathlib import Path
from typing import Any

from .. import _native
from .._checkpoint import pack, unpack
from .._frameworks import _NUMPY
from .._sources import http_options
from . import _calls

__all__ = [
    "MAGIC",
    "ZstnReader",
    "compress_bytes",
    "compress_file",
    "decompress_bytes",
    "decompress_file",
]

MAGIC = b"ZSTN"


def compress_bytes(
    blob: Any,
    *,
    level: int | None = None,
    threads: int = 0,
    workers: int | None = None,
) -> bytes:
    """Packs a safetensors file in memory."""
    count = _calls.thread_count(workers or threads)
    return _calls.call(
        _native.pack_bytes, _calls.as_bytes(blob), _calls.effort_of(level), count
    )


def decompress_bytes(frame: Any, *, workers: int | None = None) -> bytes:
    """Restores the safetensors file from a packed file in memory."""
    return _calls.call(
        _native.unpack_bytes, _calls.as_bytes(frame), _calls.thread_count(workers)
    )


def compress_file(
    in_path: Any,
    out_path: Any,
    *,
    level: int | None = None,
    threads: int = 0,
    workers: int | None = None,
) -> dict[str, Any]:
    """Packs a file, with bounded memory."""
    _calls.refuse_other_formats(in_path)
    report = _calls.call(
        lambda: pack(
            Path(in_path),
            Path(out_path),
            effort=_calls.effort_of(level),
            threads=_calls.thread_count(workers or threads),
        )
    )
    return _calls.stats(report.original_bytes, report.packed_bytes)


def decompress_file(in_path: Any, out_path: Any, *, workers: int | None = None) -> dict[str, Any]:
    """Restores a packed file, with bounded memory."""
    threads = _calls.thread_count(workers)
    report = _calls.call(lambda: unpack(Path(in_path), Path(out_path), threads=threads))
    return {"bytes": report.original_bytes}


class ZstnReader:
    """Reads single tensors of a packed file: ``ZstnReader.open(path)``, or
    ``ZstnReader.from_bytes(frame)``."""

    def __init__(self, *, fh: Any = None, buf: Any = None, owns_file: bool = False) -> None:
        if (fh is None) == (buf is None):
            raise ValueError("provide exactly one of fh / buf")
        self._file = fh
        self._owns_file = owns_file
        source = io.BytesIO(buf) if fh is None else fh
        self._header = _read_header(source)
        self._reader = _calls.call(
            _native.Reader, buf if fh is None else fh, None, http_options(), False, 0
        )

    @classmethod
    def open(cls, path: Any) -> ZstnReader:
        """Opens the packed file at `path`."""
        file = open(path, "rb")  # noqa: SIM115 - the reader closes it
        try:
            return cls(fh=file, owns_file=True)
        except BaseException:
            file.close()
            raise

    @classmethod
    def from_bytes(cls, frame: Any) -> ZstnReader:
        """Opens a packed file whose bytes are in memory."""
        return cls(buf=bytes(frame))

    def __enter__(self) -> ZstnReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file if this class has opened it."""
        if self._owns_file and self._file is not None:
            self._reader.close()
            self._file.close()
            self._file = None

    def names(self) -> list[str]:
        """Returns the names of the tensors, in the order of their data."""
        return self._reader.keys()

    def header(self) -> dict[str, Any]:
        """Returns the header of the safetensors file."""
        return self._header

    def metadata(self) -> dict[str, str]:
        """Returns the ``__metadata__`` of the header."""
        return dict(self._header.get("__metadata__", {}))

    def __contains__(self, name: str) -> bool:
        return self._reader.find(name) is not None

    def _find(self, name: str) -> _native.TensorInfo:
        info = self._reader.find(name)
        if info is None:
            raise KeyError(f"no tensor named {name!r} in this ZSTN file")
        return info

    def read_raw(self, name: str) -> bytes:
        """Reads the decoded bytes of a tensor."""
        self._find(name)
        return bytes(_calls.call(self._reader.read, name))

    def frame_size(self, name: str) -> int:
        """Returns the number of bytes that a tensor occupies in the file."""
        return self._find(name).stored_nbytes

    def read_numpy(self, name: str) -> Any:
        """Reads a tensor as a NumPy array."""
        import numpy as np

        info = self._find(name)
        if info.dtype not in _NUMPY:
            raise TypeError(
                f"tensor {name!r} dtype {info.dtype} has no native NumPy dtype; use read_raw()"
            )
        if not info.nbytes:
            return np.empty(info.shape, _NUMPY[info.dtype])
        memory: Any = _calls.call(self._reader.read, name)
        return np.frombuffer(memory, _NUMPY[info.dtype]).reshape(info.shape)


def _read_header(file: Any) -> dict[str, Any]:
    """Reads the header of the original safetensors file from a packed file
    (docs/formats/z4ai-containers.md 2.1)."""
    file.seek(0)
    start = file.read(14)
    if start[:4] != MAGIC or len(start) < 14:
        raise _calls.Z4aiError("not a z4ai-safetensors (ZSTN) frame", "malformed")
    (length,) = struct.unpack_from("<Q", start, 6)
    # No header is longer; the limit protects memory from a damaged length.
    header = file.read(min(length, 100_000_000))
    try:
        return json.loads(header)
    except ValueError as error:
        raise _calls.Z4aiError(f"the header is damaged: {error}", "malformed") from None
