"""Reads integers from bytes that may end too early."""


class Malformed(Exception):
    """The bytes break a rule of their format."""


def demand(condition, what):
    if not condition:
        raise Malformed(what)


class Cursor:
    """A read position in a byte string."""

    def __init__(self, raw, at=0):
        self.raw, self.at = memoryview(raw), at

    def take(self, count):
        demand(count <= len(self.raw) - self.at, f"{count} bytes at {self.at} are not there")
        self.at += count
        return bytes(self.raw[self.at - count : self.at])

    def integer(self, width, signed=False):
        return int.from_bytes(self.take(width), "little", signed=signed)

    def u8(self):
        return self.integer(1)

    def u16(self):
        return self.integer(2)

    def u32(self):
        return self.integer(4)

    def u64(self):
        return self.integer(8)

    def left(self):
        return len(self.raw) - self.at


class Bits:
    """Reads bit fields, starting at the lowest bit of the first byte."""

    def __init__(self, raw):
        self.value, self.left = int.from_bytes(raw, "little"), 8 * len(raw)

    def take(self, count):
        demand(count <= self.left, "bit fields end too early")
        field = self.value & ((1 << count) - 1)
        self.value >>= count
        self.left -= count
        return field
