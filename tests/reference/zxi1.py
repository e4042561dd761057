"""Decodes ZXI1 frames, as described in docs/formats/zxi1.md."""

from .cursor import Bits, Cursor, demand
from .rans import TOTAL, Decoder, read_tables
from .zxd1 import checksum, side_stream

FIXED_FIELDS = 39


def rotated(bits, width):
    """The integer *u* of an element (section 1): its bits rotated to the left by one."""
    return (2 * bits + (bits >> (width - 1))) % (1 << width)


def unrotated(number, width):
    """The bits of the element whose integer is `number`: the inverse of `rotated`."""
    return number >> 1 | (number & 1) << (width - 1)


def _intervals(lengths, width):
    """The first integer of each interval (section 2), given the base-2 logarithms of their sizes."""
    starts, end = [], 0
    for length in lengths:
        starts.append(end)
        end += 1 << length
    demand(end <= 1 << width, "intervals that reach beyond the largest integer")
    return starts


class _Head:
    """The head of a frame (section 4)."""

    def __init__(self, frame):
        cursor = Cursor(frame)
        demand(cursor.take(4) == b"ZXI1", "another magic")
        version, width_bytes, zero, log_states = (cursor.u8() for _ in range(4))
        demand(version == 1, f"version {version}")
        demand(width_bytes in (1, 2, 4), f"elements of {width_bytes} bytes")
        demand(zero == 0, "a byte at offset 6 that is not 0")
        demand(3 <= log_states <= 5, f"2^{log_states} states")
        self.width, self.states = 8 * width_bytes, 1 << log_states
        self.elements, self.row, self.block = cursor.u64(), cursor.u64(), cursor.u32()
        demand(1 <= self.elements < 1 << 56, f"{self.elements} elements")
        demand(1 <= self.row <= self.elements, f"{self.row} elements in a row")
        codes = -(-self.elements // self.row) + self.row
        demand(codes <= self.elements // 8 + 65536, f"{codes} rows and columns")
        demand(self.block % 32 == 0 and 4096 <= self.block <= 1 << 20, f"blocks of {self.block} elements")
        self.length, head_checksum = cursor.u32(), cursor.u32()
        demand(FIXED_FIELDS <= self.length <= len(frame), "a head past the end")
        demand(checksum(frame[:32] + frame[36 : self.length]) == head_checksum, "another checksum of the head")
        cursor = Cursor(frame[: self.length], cursor.at)
        table_count, context_count, interval_count = (cursor.u8() + 1 for _ in range(3))
        demand(table_count <= 16, f"{table_count} tables")
        # The list of blocks is the last field. If it does not fit, there is no need to decode a code for each row.
        blocks = -(-self.elements // self.block)
        demand(12 * blocks <= cursor.left(), "a list of blocks past the end of the head")
        self.row_codes = side_stream(cursor, -(-self.elements // self.row))
        self.column_codes = side_stream(cursor, self.row)
        fields = Bits(cursor.take((4 * context_count + 5 * interval_count + 7) // 8))
        self.contexts = [fields.take(4) for _ in range(context_count)]
        self.lengths = [fields.take(5) for _ in range(interval_count)]
        demand(fields.value == 0, "bits after the intervals")
        demand(all(table < table_count for table in self.contexts), "a table that does not exist")
        self.starts = _intervals(self.lengths, self.width)
        self.tables = read_tables(cursor.take(cursor.u16()), table_count)
        demand(all(table.last < interval_count for table in self.tables), "a symbol without an interval")
        self.largest = max(frequency for table in self.tables for _, frequency, _ in table.slots)
        demand(self.largest < TOTAL, "a frequency of 4096")
        self.directory = [(cursor.u32(), cursor.u32(), cursor.u32()) for _ in range(blocks)]
        demand(cursor.left() == 0, "a head that is longer than its fields")
        for number, (rans_len, raw_len, _) in enumerate(self.directory):
            self._check_lengths(len(self.members(number)), rans_len, raw_len)

    def members(self, number):
        """The indices of the elements in a block."""
        return range(number * self.block, min((number + 1) * self.block, self.elements))

    def _check_lengths(self, count, rans_len, raw_len):
        """The bounds on the lengths of a block with `count` elements (section 5)."""
        states_len = 4 * self.states
        demand(states_len <= rans_len <= states_len + 2 * count, "length of a rANS part")
        bits = 16 * self.states + 8 * (rans_len - states_len)
        demand(count * (TOTAL - self.largest) * 21 <= bits * TOTAL * 16, "too many elements for a rANS part")
        demand(raw_len <= -(-count * max(self.lengths) // 8), "length of raw bits")

    def table(self, index):
        """The table of an element (section 3)."""
        row, column = divmod(index, self.row)
        context = min(self.row_codes[row] + self.column_codes[column], len(self.contexts) - 1)
        return self.tables[self.contexts[context]]


def decode(frame):
    """The bytes of the tensor that a frame contains."""
    frame = bytes(frame)
    head = _Head(frame)
    cursor = Cursor(frame, head.length)
    out = bytearray()
    for number, (rans_len, raw_len, block_checksum) in enumerate(head.directory):
        rans, raw_bytes = cursor.take(rans_len), cursor.take(raw_len)
        demand(checksum(rans + raw_bytes) == block_checksum, f"block {number}: another checksum")
        decoder, raw = Decoder(rans, head.states), Bits(raw_bytes)
        members = head.members(number)
        for index in members:
            symbol = decoder.symbol(index - members.start, head.table(index))
            position = head.starts[symbol] + raw.take(head.lengths[symbol])
            out += unrotated(position, head.width).to_bytes(head.width // 8, "little")
        decoder.finish()
        demand(raw.left < 8 and raw.value == 0, "raw bits after the last element")
    demand(cursor.left() == 0, "bytes after the last block")
    return bytes(out)
