"""Decodes a whole Z4DM file of version 1 or 2: docs/formats/z4ai-containers.md, chapters 3 and 4, and extensions.md."""

import hashlib
import json
import struct

from . import zxd1
from .cursor import Cursor, demand
from .frame import decode, decode_z4ai

FULL, DELTA, COPY, DIFFERENCE = 0, 1, 2, 3


def _base_tensors(base):
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


def decode_file(file, base):
    """The restored safetensors file, and name -> (kind, payload) of its tensors."""
    tensors, base_data = _base_tensors(base)
    cursor = Cursor(file)
    demand(cursor.take(4) == b"Z4DM", "not a Z4DM file")
    version = cursor.u8()
    demand(version in (1, 2), f"version {version}")
    header_len = cursor.u64()
    header = cursor.take(header_len)
    data = bytearray(cursor.u64())
    demand(cursor.take(8) == hashlib.blake2b(base_data, digest_size=8).digest(), "another base")
    payloads = {}
    for _ in range(cursor.u32()):
        name = cursor.take(cursor.u16()).decode()
        begin, end, kind = cursor.u64(), cursor.u64(), cursor.u8()
        demand(kind in (FULL, DELTA, COPY) or (kind == DIFFERENCE and version == 2), f"{name}: kind {kind}")
        payload = b"" if kind == COPY else cursor.take(cursor.u64())
        payloads[name] = kind, payload
        if kind == FULL:
            tensor = decode(payload, version == 2)
        elif kind == DELTA:
            tensor = _delta(payload, tensors[name])
        elif kind == DIFFERENCE:
            tensor = zxd1.decode(payload, tensors[name])
        else:
            tensor = tensors[name]
        demand(len(tensor) == end - begin, f"{name}: another length")
        data[begin:end] = tensor
    return struct.pack("<Q", header_len) + header + bytes(data), payloads
