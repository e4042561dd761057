"""rANS with N 32-bit states, 16-bit words and 12-bit tables."""

from .cursor import Bits, Cursor, demand

TABLE_BITS = 12
TOTAL = 1 << TABLE_BITS
LOW = 1 << 16


class Table:
    """The frequencies of symbols, and the symbol of each of 4096 slots."""

    def __init__(self, first, frequencies):
        demand(sum(frequencies) == TOTAL, f"frequencies add up to {sum(frequencies)}")
        self.slots, self.last = [], first + len(frequencies) - 1
        start = 0
        for symbol, frequency in enumerate(frequencies, first):
            self.slots += [(symbol, frequency, start)] * frequency
            start += frequency


def read_tables(raw, count):
    """Reads consecutive tables, each consisting of its first and last symbol, then a length and low bits per symbol."""
    bits = Bits(raw)
    tables = []
    for _ in range(count):
        first, last = bits.take(8), bits.take(8)
        demand(first <= last, f"symbols {first} to {last}")
        frequencies = []
        for _ in range(first, last + 1):
            length = bits.take(4)
            frequencies.append(0 if length == 0 else 1 << (length - 1) | bits.take(length - 1))
        tables.append(Table(first, frequencies))
    demand(bits.left < 8 and bits.value == 0, "bytes after the tables")
    return tables


class Decoder:
    """The states of one stream. `symbol(i, table)` must be called for i = 0, 1, 2 and so on."""

    def __init__(self, raw, states):
        self.cursor = Cursor(raw)
        self.states = [self.cursor.u32() for _ in range(states)]
        demand(all(state >= LOW for state in self.states), "a state below 2^16")

    def symbol(self, index, table):
        at = index % len(self.states)
        state = self.states[at]
        slot = state % TOTAL
        symbol, frequency, start = table.slots[slot]
        state = frequency * (state // TOTAL) + slot - start
        if state < LOW:
            state = state << 16 | self.cursor.u16()
        self.states[at] = state
        return symbol

    def finish(self):
        demand(all(state == LOW for state in self.states), "a state is not 2^16 at the end")
        demand(self.cursor.left() == 0, "words after the last symbol")
