"""Decodes a whole Z4DM file: docs/formats/z4ai-containers.md, chapters 3 and 4, extensions.md and zstn-delta.md 7."""

import hashlib
import json
import struct

import blake3

from . import zxd1
from .cursor import Cursor, demand
from .frame import decode, decode_z4ai

FULL, DELTA, COPY, DIFFERENCE, GROWN = 0, 1, 2, 3, 4


def base_tensors(base):
    """The bytes of each tensor of a safetensors file, and all of its data."""
    (header_len,) = struct.unpack_from("<Q", base)
    header = json.loads(base[8 : 8 + header_len])
    data = base[8 + header_len :]
    header.pop("__metadata__", None)
    return {name: data[slice(*tensor["data_offsets"])] for name, tensor in header.items()}, data


def _delta(blob, reference):
    """Decodes Z4DL, the XOR with a reference."""
    cursor = Cursor(blob)
    demand(cursor.take(4) == b"Z4DL" and cursor.u8() == 2, "not a Z4DL blob")
    cursor.take(3)
    demand(cursor.u64() == len(reference), "Z4DL: a reference of another length")
    demand(cursor.take(16) == hashlib.blake2b(reference, digest_size=16).digest(), "Z4DL: another reference")
    changes = decode_z4ai(cursor.take(cursor.left()))
    return bytes(a ^ b for a, b in zip(changes, reference, strict=True))


def trailer_fields(file):
    """The fields of the trailer, by tag."""
    demand(file[-8:] == b"ZSTNSEAL", "no trailer")
    (length,) = struct.unpack("<Q", file[-16:-8])
    cursor, fields = Cursor(file[-16 - length : -16]), {}
    while cursor.left():
        tag = cursor.take(4)
        fields[tag] = cursor.take(cursor.u64())
    return fields


def _sources(file, kinds, names):
    """For each record, the name of the base's tensor and the range in it; None for the tensor of its name."""
    fields = trailer_fields(file)
    demand(b"RECS" in fields and b"REFS" not in fields, "fields of the trailer")
    cursor, sources = Cursor(fields[b"SRCS"]), []
    demand(cursor.take(16) == blake3.blake3(fields[b"SRCS"][16:]).digest(16), "SRCS: another digest")
    for kind in kinds:
        source = None
        has_range = kind != FULL and cursor.u8()
        demand(has_range == 1 or (not has_range and kind != GROWN), "SRCS: an entry")
        if has_range:
            name, begin, length = names[cursor.u32()], cursor.u64(), cursor.u64()
            cursor.take(16)
            source = name, begin, begin + length
        sources.append(source)
    demand(not cursor.left(), "SRCS is too long")
    return sources


def _tensor(version, kind, payload, length, reference):
    """Decodes the payload of a record of this kind; `reference` has the bytes of the base."""
    if kind == FULL:
        return decode(payload, version > 1)
    if kind == GROWN:
        cursor = Cursor(payload)
        kind, front = cursor.u8(), cursor.take(cursor.u64())
        demand(kind in (DELTA, COPY, DIFFERENCE) and 0 < len(reference) < length, "a beginning")
        return _tensor(version, kind, front, len(reference), reference) + decode(cursor.take(cursor.left()), True)
    demand(len(reference) == length, "a reference of another length")
    return {DELTA: _delta, COPY: lambda _, reference: reference, DIFFERENCE: zxd1.decode}[kind](payload, reference)


def decode_file(file, base):
    """The restored safetensors file, and name -> (kind, payload) of its tensors."""
    tensors, base_data = base_tensors(base)
    cursor = Cursor(file)
    demand(cursor.take(4) == b"Z4DM", "not a Z4DM file")
    version = cursor.u8()
    demand(version in (1, 2, 3), f"version {version}")
    header_len = cursor.u64()
    header = cursor.take(header_len)
    data = bytearray(cursor.u64())
    demand(cursor.take(8) == hashlib.blake2b(base_data, digest_size=8).digest(), "another base")
    records = []
    for _ in range(cursor.u32()):
        name = cursor.take(cursor.u16()).decode()
        begin, end, kind = cursor.u64(), cursor.u64(), cursor.u8()
        allowed = {1: (FULL, DELTA, COPY), 2: (FULL, DELTA, COPY, DIFFERENCE)}
        demand(kind in allowed.get(version, range(5)), f"{name}: kind {kind}")
        records.append((name, begin, end, kind, b"" if kind == COPY else cursor.take(cursor.u64())))
    in_order = sorted(tensors, key=lambda name: name.encode())
    kinds = [kind for _, _, _, kind, _ in records]
    sources = _sources(file, kinds, in_order) if version == 3 else [None] * len(records)
    uses = sum(len(tensors[source[0]]) for source in sources if source)
    demand(uses <= 16 * len(base_data), "SRCS: tensors of more than 16 times the length of the base")
    for (name, begin, end, kind, payload), source in zip(records, sources, strict=True):
        of_name, first, last = source or (name, 0, None)
        reference = b"" if kind == FULL else tensors[of_name][first:last]
        tensor = _tensor(version, kind, payload, end - begin, reference)
        demand(len(tensor) == end - begin, f"{name}: another length")
        data[begin:end] = tensor
    return struct.pack("<Q", header_len) + header + bytes(data), {name: (kind, payload) for name, _, _, kind, payload in records}
