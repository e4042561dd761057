"""The fields of a ``Z4AI`` frame, like the module ``z4ai.format``
(docs/formats/z4ai-frames.md 3.1)."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any

from ._calls import Z4aiError

MAGIC = b"Z4AI"
FORMAT_VERSION = 1
FLAG_NUMPY = 1
TRANSFORM_OPAQUE = 0
TRANSFORM_BYTEPLANE = 1
TRANSFORM_BITFIELD = 2


@dataclass
class PlaneEntry:
    """A stored byte plane."""

    method: int
    orig_len: int
    data: Any


@dataclass
class Container:
    """The fields of a frame, with its planes in stored form."""

    planes: list[PlaneEntry]
    transform: int = TRANSFORM_OPAQUE
    width: int = 1
    dtype_code: str = ""
    tail: bytes = b""
    is_numpy: bool = False
    dtype: str = ""
    shape: tuple[int, ...] = field(default_factory=tuple)


def peek_is_z4ai(blob: Any) -> bool:
    """Returns whether a buffer begins like a ``Z4AI`` frame."""
    return bytes(blob[:4]) == MAGIC


def serialize(container: Container) -> bytes:
    """Returns a frame with these fields."""
    texts = [text.encode("ascii") for text in (container.dtype, container.dtype_code)]
    if max(map(len, texts)) > 255 or len(container.shape) > 255:
        raise ValueError("dtype or shape too long")
    if len(container.planes) > 255:
        raise ValueError("too many planes")
    fixed = (
        FORMAT_VERSION,
        FLAG_NUMPY if container.is_numpy else 0,
        container.transform,
        container.width,
        len(container.planes),
    )
    parts = [MAGIC, bytes(fixed)]
    for text in texts:
        parts += [bytes([len(text)]), text]
    parts.append(bytes([len(container.shape)]))
    parts.append(struct.pack(f"<{len(container.shape)}Q", *container.shape))
    parts += [struct.pack("<I", len(container.tail)), container.tail]
    for plane in container.planes:
        parts.append(struct.pack("<BQQ", plane.method, plane.orig_len, len(plane.data)))
        parts.append(plane.data)
    return b"".join(parts)


def deserialize(blob: Any) -> Container:
    """Parses the fields of a frame."""
    if not peek_is_z4ai(blob):
        raise Z4aiError("not a z4ai blob (bad magic)", "malformed")
    cursor = _Cursor(memoryview(blob).cast("B"), len(MAGIC))
    try:
        version, flags, transform, width, planes = cursor.take(5)
        if version != FORMAT_VERSION:
            raise Z4aiError(f"unsupported z4ai format version {version}", "unsupported")
        dtype, dtype_code = cursor.text(), cursor.text()
        shape = cursor.numbers("Q" * cursor.take(1)[0])
        tail = bytes(cursor.take(cursor.numbers("I")[0]))
        entries = []
        for _ in range(planes):
            method, length, stored = cursor.numbers("BQQ")
            entries.append(PlaneEntry(method, length, cursor.take(stored)))
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise Z4aiError(f"the frame is damaged: {error}", "malformed") from None
    return Container(
        entries, transform, width, dtype_code, tail, bool(flags & FLAG_NUMPY), dtype, shape
    )


class _Cursor:
    def __init__(self, view: memoryview, position: int) -> None:
        self._view = view
        self._position = position

    def take(self, length: int) -> memoryview:
        part = self._view[self._position : self._position + length]
        if len(part) != length:
            raise IndexError(f"it ends {length - len(part)} bytes too early")
        self._position += length
        return part

    def numbers(self, codes: str) -> tuple[int, ...]:
        layout = f"<{codes}"
        return struct.unpack(layout, self.take(struct.calcsize(layout)))

    def text(self) -> str:
        return bytes(self.take(self.take(1)[0])).decode("ascii")
