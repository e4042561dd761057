"""Decodes a whole ZSTN file of version 3 or 4: docs/formats/z4ai-containers.md, chapter 2, and extensions.md."""

import struct

from .cursor import Cursor, demand
from .frame import decode

FRAME, ALIAS = 0, 1
FOOTER_LEN = 20


def _record(cursor):
    name = cursor.take(cursor.u16()).decode()
    begin, end, kind = cursor.u64(), cursor.u64(), cursor.u8()
    demand(kind in (FRAME, ALIAS), f"{name}: kind {kind}")
    where = (cursor.u64(), cursor.u64()) if kind == FRAME else cursor.u32()
    return name, begin, end, kind, where


def decode_file(file):
    """The restored safetensors file, and name -> frame of its tensors."""
    cursor = Cursor(file)
    demand(cursor.take(4) == b"ZSTN", "not a ZSTN file")
    version, indexed = cursor.u8(), cursor.u8()
    demand(version in (3, 4), f"version {version}")
    header_len = cursor.u64()
    header = cursor.take(header_len)
    data_len = cursor.u64()
    start = struct.pack("<Q", header_len) + header
    if not indexed:
        data = decode(cursor.take(cursor.u64()), False)
        demand(len(data) == data_len, "the data has another length")
        return start + data, {}

    index_offset, index_len, magic = struct.unpack("<QQ4s", file[-FOOTER_LEN:])
    demand(magic == b"ZSTN", "no footer")
    index = Cursor(file[index_offset : index_offset + index_len])
    records = [_record(index) for _ in range(index.u32())]
    frames, tensors, parts = {}, [], []
    for name, begin, end, kind, where in records:
        if kind == FRAME:
            offset, length = where
            frames[name] = bytes(file[offset : offset + length])
            tensors.append(decode(frames[name], version == 4))
        else:
            tensors.append(None)
        parts.append((begin, end))
    data = bytearray(data_len)
    for (begin, end), tensor, record in zip(parts, tensors, records, strict=True):
        tensor = tensors[record[4]] if tensor is None else tensor
        demand(tensor is not None and len(tensor) == end - begin, f"{record[0]}: another length")
        data[begin:end] = tensor
    return start + bytes(data), frames
