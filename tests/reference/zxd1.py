"""Decodes ZXD1 frames, as described in docs/formats/zxd1.md."""

import math

import blake3
import numpy as np
import xxhash

from . import floats
from .cursor import Bits, Cursor, demand
from .rans import Decoder, read_tables

MEANS, LOW_RANK = 1, 2
UNCHANGED, BY_MANTISSA = 255, 254
SIDE_STREAM_STATES = 8
LAST_SYMBOL = 85


def checksum(raw):
    """The checksum of a head or block: the lower half of XXH3-64."""
    return xxhash.xxh3_64_intdigest(raw) & 0xFFFFFFFF


def side_stream(cursor, count):
    """Reads a side stream (section 9): bytes stored plainly, or coded by one table."""
    kind = cursor.u8()
    demand(kind < 2, f"a side stream of kind {kind}")
    if kind == 0:
        return list(cursor.take(count))
    (table,) = read_tables(cursor.take(cursor.u16()), 1)
    decoder = Decoder(cursor.take(cursor.u32()), SIDE_STREAM_STATES)
    found = [decoder.symbol(index, table) for index in range(count)]
    decoder.finish()
    return found


class _LowRank:
    """The integer factors, and predictions from their product (section 13)."""

    def __init__(self, cursor, dtype, elements):
        rank, bits = cursor.u16(), cursor.u8()
        shift = cursor.integer(2, signed=True) + cursor.integer(2, signed=True)
        rows, columns = cursor.u32(), cursor.u32()
        demand(rows * columns == elements and 1 <= rank <= min(1024, rows, columns), "shape of the factors")
        demand(2 <= bits <= 24 and rank * 4 ** (bits - 1) <= 2**53, "bits of the factors")
        demand(-970 <= shift <= 1022, f"a shift of {shift}")
        fields = Bits(cursor.take((rank * (rows + columns) * bits + 7) // 8))
        factors = lambda count: [fields.take(bits) - (1 << (bits - 1)) for _ in range(count)]
        self.a = [factors(rank) for _ in range(rows)]
        self.b = [factors(columns) for _ in range(rank)]
        demand(fields.value == 0, "bits after the last factor")
        self.columns, self.shift = columns, shift

    def prediction(self, index, bits, dtype):
        if not floats.is_finite(bits, dtype):
            return bits
        row, column = divmod(index, self.columns)
        product = sum(a * b[column] for a, b in zip(self.a[row], self.b, strict=True))
        total = float(floats.value(bits, dtype)) + math.ldexp(float(product), -self.shift)
        with np.errstate(over="ignore"):
            return floats.nearest(np.float32(total), dtype)


def context(predicted, code, dtype):
    """The context (section 6), before it is clamped to the contexts of the frame."""
    if code == UNCHANGED:
        return 96
    if code == BY_MANTISSA:
        return 97 + (floats.mantissa_field(predicted, dtype) >> (floats.MANTISSA_BITS[dtype] - 6))
    exponent = floats.exponent_field(predicted, dtype) - floats.BIAS[dtype]
    return min(max(2 * exponent - (code - 100) + 16, 0), 95)


def _value(symbol, shift, raw, bits):
    """The value of a symbol and its raw bits (section 5)."""
    extra_bits = 0 if symbol < 32 else symbol // 2 - 12
    lead = symbol if symbol < 32 else (2 + symbol % 2) << extra_bits
    return ((lead << shift) + raw.take(shift + extra_bits)) % (1 << bits)


def _signed(value):
    return value // 2 if value % 2 == 0 else -(value + 1) // 2


class _Head:
    """The head of a frame (section 3)."""

    def __init__(self, frame, base):
        cursor = Cursor(frame)
        demand(cursor.take(4) == b"ZXD1", "another magic")
        version, dtype, flags, log_states = (cursor.u8() for _ in range(4))
        demand(version == 1, f"version {version}")
        demand(dtype < 3 and flags < 4 and 3 <= log_states <= 5, "dtype, flags or states")
        self.dtype, self.states = floats.NAMES[dtype], 1 << log_states
        demand(not flags & MEANS or self.dtype == "F32", "means of another dtype")
        demand(not flags & LOW_RANK or self.dtype != "F16", "low rank of float16")
        digest = cursor.take(16)
        self.elements, self.group, self.block = cursor.u64(), cursor.u64(), cursor.u32()
        demand(1 <= self.elements < 1 << 56 and 1 <= self.group <= self.elements, "elements or groups")
        demand(self.block % 32 == 0 and 4096 <= self.block <= 1 << 20, f"blocks of {self.block} elements")
        demand(len(base) == self.elements * floats.WIDTH[self.dtype], "a base of another length")
        demand(blake3.blake3(base).digest()[:16] == digest, "another base")
        length, head_checksum = cursor.u32(), cursor.u32()
        demand(52 <= length <= len(frame), "a head past the end")
        demand(checksum(frame[:48] + frame[52:length]) == head_checksum, "another checksum of the head")
        cursor = Cursor(frame[:length], cursor.at)
        self.first, self.last, table_count = cursor.u8(), cursor.u8(), cursor.u8()
        demand(self.first <= self.last <= 160 and 1 <= table_count <= 16, "contexts or tables")
        self.codes = side_stream(cursor, -(-self.elements // self.group))
        self.means = [cursor.integer(4, signed=True) for _ in range(64)] if flags & MEANS else None
        self.low_rank = _LowRank(cursor, self.dtype, self.elements) if flags & LOW_RANK else None
        fields = Bits(cursor.take((9 * (self.last - self.first + 1) + 7) // 8))
        self.contexts = [(fields.take(4), fields.take(5)) for _ in range(self.first, self.last + 1)]
        demand(all(table < table_count and shift <= 24 for table, shift in self.contexts), "contexts")
        demand(fields.value == 0, "bits after the contexts")
        self.tables = read_tables(cursor.take(cursor.u16()), table_count)
        demand(all(table.last <= LAST_SYMBOL for table in self.tables), "symbols over 85")
        self.directory = [(cursor.u32(), cursor.u32(), cursor.u32()) for _ in range(-(-self.elements // self.block))]
        demand(cursor.left() == 0, "a head that is longer than its fields")
        self.length = length


def decode(frame, base):
    """The bytes of the tensor, given the bytes of the base tensor."""
    frame, base = bytes(frame), bytes(base)
    head = _Head(frame, base)
    cursor = Cursor(frame, head.length)
    width = 8 * floats.WIDTH[head.dtype]
    predicted = floats.read(base, head.dtype)
    out = []
    for number, (rans_len, raw_len, block_checksum) in enumerate(head.directory):
        members = range(number * head.block, min((number + 1) * head.block, head.elements))
        most = 4 * head.states + 2 * len(members)
        demand(4 * head.states <= rans_len <= most and raw_len <= -(-54 * len(members) // 8), "lengths of a block")
        rans, raw_bytes = cursor.take(rans_len), cursor.take(raw_len)
        demand(checksum(rans + raw_bytes) == block_checksum, f"block {number}: another checksum")
        decoder, raw = Decoder(rans, head.states), Bits(raw_bytes)
        for index in members:
            bits = predicted[index]
            if head.low_rank:
                bits = head.low_rank.prediction(index, bits, head.dtype)
            code = head.codes[index // head.group]
            chosen = context(bits, code, head.dtype)
            table, shift = head.contexts[min(max(chosen, head.first), head.last) - head.first]
            value = _value(decoder.symbol(index - members.start, head.tables[table]), shift, raw, width)
            difference = _signed(value)
            if head.means and code == BY_MANTISSA:
                difference += head.means[chosen - 97]
            if bits >> (width - 1):
                difference = -difference
            out.append(floats.unordered(floats.ordered(bits, head.dtype) + difference, head.dtype))
        decoder.finish()
        demand(raw.left < 8 and raw.value == 0, "raw bits after the last element")
    demand(cursor.left() == 0, "bytes after the last block")
    return floats.write(out, head.dtype)
