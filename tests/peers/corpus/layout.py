"""Builds and parses safetensors files."""

import json
import struct


def checkpoint(tensors):
    """A safetensors file of tensors given as (name, dtype, shape, bytes); dtypes may
    include bfloat16."""
    header, offset = {}, 0
    for name, dtype, shape, raw in tensors:
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [offset, offset + len(raw)]}
        offset += len(raw)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return b"".join([struct.pack("<Q", len(text)), text, *(raw for *_, raw in tensors)])


def split(file):
    """The header and the data of a safetensors file."""
    (header_len,) = struct.unpack_from("<Q", file)
    header = json.loads(file[8 : 8 + header_len])
    header.pop("__metadata__", None)
    return header, file[8 + header_len :]
