"""Computes the base of a Z4DM file from other checkpoints: docs/formats/zstn-delta.md 9."""

import json
import math
import struct
from fractions import Fraction

import blake3
import numpy as np

from . import floats, z4dm
from .cursor import Cursor, demand

DOUBLE, SINGLE, ELEMENT = range(3)
NAN = {"BF16": 0x7FC0, "F16": 0x7E00, "F32": 0x7FC00000}


def nearest(number, dtype):
    """The number that the dtype can represent and that is nearest to a double, ties to even."""
    if not math.isfinite(number) or number == 0:
        return number
    digits = floats.MANTISSA_BITS[dtype]
    least = 2 - 2 ** (floats.EXPONENT_BITS[dtype] - 1)
    exponent = max(math.frexp(number)[1] - 1, least)
    place = Fraction(2) ** (exponent - digits)
    # Python rounds fractions to the nearest integer, ties to even.
    rounded = round(Fraction(number) / place) * place
    limit = 2 ** (2 - least)
    magnitude = math.inf if abs(rounded) >= limit else float(abs(rounded))
    return math.copysign(magnitude, number)


def _bits(number, dtype):
    if math.isnan(number):
        return NAN[dtype]
    single = np.float32(nearest(number, dtype))
    return floats.nearest(single, dtype)


def _element(arithmetic, dtype, weights, values):
    single = lambda number: nearest(number, "F32")
    step = {DOUBLE: lambda number: number, SINGLE: single, ELEMENT: lambda number: nearest(single(number), dtype)}
    step = step[arithmetic]
    weights = weights if arithmetic == DOUBLE else [single(weight) for weight in weights]
    total = None
    for weight, value in zip(weights, values, strict=True):
        product = step(weight * value)
        total = product if total is None else step(total + product)
    return _bits(total, dtype)


def _mixes(field, records):
    """The number of sources; for each record None, or the arithmetic, the weights, and the numbers of the tensors."""
    cursor = Cursor(field)
    demand(cursor.take(16) == blake3.blake3(field[16:]).digest(16), "MIXS: another digest")
    flags, sources, count = cursor.u8(), cursor.u8(), cursor.u16()
    demand(flags < 2 and sources > 0, "MIXS: flags or sources")
    mixes = [None]
    for _ in range(count):
        arithmetic = cursor.u8()
        weights = struct.unpack(f"<{sources}d", cursor.take(8 * sources))
        demand(arithmetic in (DOUBLE, SINGLE, ELEMENT), "MIXS: an arithmetic")
        demand(any(weights) and all(map(math.isfinite, weights)), "MIXS: weights")
        mixes.append((arithmetic, weights))
    found = []
    for _ in range(records):
        number = cursor.u16()
        demand(number <= count, "MIXS: a number")
        mix = mixes[number]
        used = sum(map(bool, mix[1])) if mix else 0
        found.append(mix and (*mix, [cursor.u32() if flags else 0 for _ in range(used)]))
    demand(not cursor.left(), "MIXS is too long")
    return sources, found


def _dtype(source, name):
    header_len = struct.unpack_from("<Q", source)[0]
    return json.loads(source[8 : 8 + header_len])[name]["dtype"]


def base_of(file, sources):
    """The safetensors file that is the base of `file`, computed from safetensors files."""
    header_len = struct.unpack_from("<Q", file, 5)[0]
    header = json.loads(file[13 : 13 + header_len])
    header.pop("__metadata__", None)
    in_order = sorted(header, key=lambda name: header[name]["data_offsets"])
    count, mixes = _mixes(z4dm.trailer_fields(file)[b"MIXS"], len(in_order))
    demand(count == len(sources), f"{len(sources)} sources instead of {count}")
    tensors = [z4dm.base_tensors(source)[0] for source in sources]
    names_of = [sorted(of_source, key=lambda name: name.encode()) for of_source in tensors]
    mixed = {name: mix for name, mix in zip(in_order, mixes, strict=True) if mix}
    table, data = {}, b""
    for name in sorted(mixed, key=lambda name: name.encode()):
        arithmetic, weights, others = mixed[name]
        dtype = header[name]["dtype"]
        used = [number for number, weight in enumerate(weights) if weight]
        names = [names_of[number][other - 1] if other else name for number, other in zip(used, others, strict=True)]
        parts = [tensors[number][name] for number, name in zip(used, names, strict=True)]
        types = [_dtype(sources[number], name) for number, name in zip(used, names, strict=True)]
        if [weights[number] for number in used] == [1] and types == [dtype]:
            (raw,) = parts
        else:
            demand({dtype, *types} <= set(floats.NAMES), f"{name}: a combination of {dtype}")
            typed = zip(parts, types, strict=True)
            numbers = [[float(floats.value(bits, kind)) for bits in floats.read(part, kind)] for part, kind in typed]
            weights = [weights[number] for number in used]
            elements = zip(*numbers, strict=True)
            raw = floats.write([_element(arithmetic, dtype, weights, values) for values in elements], dtype)
        begin, end = header[name]["data_offsets"]
        demand(len(raw) == end - begin, f"{name}: another length")
        table[name] = {**header[name], "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(table).encode()
    return struct.pack("<Q", len(text)) + text + data
