"""Decodes ZXQ1 frames, as described in docs/formats/zxq1.md."""

import ml_dtypes
import numpy as np

from . import floats, frame
from .cursor import Bits, Cursor, demand

INTEGERS, TABLE, FLOAT8, FLOAT16, BFLOAT16 = range(5)
OFFSETS, EXCEPTIONS = 1, 2


def _integers(size, has_offsets):
    """The function of grid 0 from a symbol and its group's zero offset to a value (section 3)."""
    last = size if has_offsets else 2 * size

    def value(symbol, offset):
        demand(symbol <= last + 1, f"symbol {symbol}")
        if symbol == last + 1:
            return np.float32(-0.0)
        return np.float32(symbol + offset - 128 if has_offsets else symbol - size)

    return value


def _numbers(numbers):
    """The function of grids 1 to 4 from a symbol to its number, which must be finite."""

    def value(symbol, _):
        demand(symbol < len(numbers) and np.isfinite(numbers[symbol]), f"symbol {symbol}")
        return numbers[symbol]

    return value


def _grid(kind, size, table, has_offsets):
    if kind == INTEGERS:
        return _integers(size, has_offsets)
    if kind == TABLE:
        return _numbers(table)
    if kind == FLOAT8:
        return _numbers(np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e4m3fn).astype(np.float32))
    return _numbers([floats.value(bits, "F16" if kind == FLOAT16 else "BF16") for bits in range(1 << 16)])


def _check_size(kind, size, has_offsets):
    if kind == INTEGERS:
        demand(1 <= size <= (254 if has_offsets else 127), f"integers up to {size}")
    elif kind != TABLE:
        demand(size == 0, "a size of a grid that has none")


class _Shape:
    """A matrix divided into groups, the last of which may be smaller (section 1)."""

    def __init__(self, cursor):
        self.rows, self.columns, self.group_rows, self.group_columns = (cursor.u32() for _ in range(4))
        demand(1 <= self.group_rows <= self.rows and 1 <= self.group_columns <= self.columns, "groups")
        self.across = -(-self.columns // self.group_columns)
        self.groups = -(-self.rows // self.group_rows) * self.across

    def members(self, group):
        """The indices of the elements in a group, row by row."""
        down, right = divmod(group, self.across)
        top, left = down * self.group_rows, right * self.group_columns
        for row in range(top, min(top + self.group_rows, self.rows)):
            for column in range(left, min(left + self.group_columns, self.columns)):
                yield row * self.columns + column


def decode(raw):
    """The bytes of the tensor that a frame contains."""
    cursor = Cursor(raw)
    demand(cursor.take(4) == b"ZXQ1", "another magic")
    version, dtype_code, kind, flags = (cursor.u8() for _ in range(4))
    demand(version == 1 and dtype_code < 3 and kind < 5 and flags < 4, "version, dtype, grid or flags")
    dtype = floats.NAMES[dtype_code]
    has_offsets, has_exceptions = bool(flags & OFFSETS), bool(flags & EXCEPTIONS)
    demand(kind == INTEGERS or not has_offsets, "zero offsets of a grid that has none")
    demand(kind < FLOAT16 or dtype == "F32", "a grid of wide floats in narrow ones")
    shape = _Shape(cursor)
    size, scale_code = cursor.u8(), cursor.u8()
    _check_size(kind, size, has_offsets)
    demand(scale_code < 3, "dtype of the scales")
    scale_dtype = floats.NAMES[scale_code]
    table = np.frombuffer(cursor.take(4 * (size + 1)), "<f4") if kind == TABLE else None
    demand(table is None or np.isfinite(table).all(), "a table")
    lengths = [cursor.u64() for _ in range(2 + has_offsets + 2 * has_exceptions)]
    parts = [frame.decode_z4ai(cursor.take(length)) for length in lengths]
    demand(cursor.left() == 0, "bytes after the last frame")

    symbols = np.frombuffer(parts.pop(0), "<u2" if kind >= FLOAT16 else "u1").tolist()
    demand(len(symbols) == shape.rows * shape.columns, "the number of symbols")
    scales = [floats.value(bits, scale_dtype) for bits in floats.read(parts.pop(0), scale_dtype)]
    demand(len(scales) == shape.groups and np.isfinite(scales).all(), "scales")
    offsets = list(parts.pop(0)) if has_offsets else [0] * shape.groups
    demand(len(offsets) == shape.groups, "the number of zero offsets")
    bitmap = parts.pop(0) if has_exceptions else bytes(-(-shape.groups // 8))
    demand(len(bitmap) == -(-shape.groups // 8), "the length of the bitmap")
    bits = Bits(bitmap)
    excepted = [bits.take(1) for _ in range(shape.groups)]
    demand(bits.value == 0, "bits after the last group")
    literal = floats.read(parts.pop(0), dtype) if has_exceptions else []

    grid = _grid(kind, size, table, has_offsets)
    out = [None] * len(symbols)
    used = 0
    for group in range(shape.groups):
        for at in shape.members(group):
            value = grid(symbols[at], offsets[group])
            if excepted[group]:
                demand(used < len(literal), "too few exceptions")
                out[at] = literal[used]
                used += 1
            else:
                with np.errstate(over="ignore"):
                    product = np.multiply(scales[group], value, dtype=np.float32)
                out[at] = floats.nearest(product, dtype)
    demand(used == len(literal), "too many exceptions")
    return floats.write(out, dtype)
