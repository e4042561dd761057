"""Writes the vectors of this folder: frames ZXI1, and the elements that they decode to.

The encoder follows sections 1 to 5 of docs/formats/zxi1.md; intervals and frequencies are computed with integers.
`python write.py` overwrites the files with identical ones.
"""

import json
import pathlib
import struct

import numpy as np
import xxhash

HERE = pathlib.Path(__file__).parent
TOTAL = 4096


def checksum(raw):
    return struct.pack("<I", xxhash.xxh3_64_intdigest(raw) & 0xFFFFFFFF)


def packed(fields):
    """The bytes of (value, bits) pairs, lowest bit first."""
    value = at = 0
    for field, count in fields:
        assert 0 <= field < 1 << count
        value |= field << at
        at += count
    return value.to_bytes((at + 7) // 8, "little")


def shares(symbols, certain):
    """Frequencies of the symbols that occur, at least 1 each. Unless `certain` is set, none of them is 4096."""
    counts = np.bincount(np.asarray(symbols, int), minlength=2) if len(symbols) else np.array([1, 1])
    if np.count_nonzero(counts) == 1 and not certain:
        counts = counts * TOTAL
        counts[np.argmax(counts) - 1] = 1
    total = int(counts.sum())
    scaled = [max(1, int(count) * TOTAL // total) if count else 0 for count in counts]
    scaled[int(np.argmax(scaled))] += TOTAL - sum(scaled)
    assert min(scaled) >= 0
    return scaled


def tables_bytes(tables):
    fields = []
    for table in tables:
        used = [symbol for symbol, frequency in enumerate(table) if frequency]
        fields += [(used[0], 8), (used[-1], 8)]
        for frequency in table[used[0] : used[-1] + 1]:
            length = frequency.bit_length()
            fields += [(length, 4), (frequency - (1 << length >> 1), max(length - 1, 0))]
    raw = packed(fields)
    return struct.pack("<H", len(raw)) + raw


def coded(symbols, tables, states):
    """A rANS stream of the symbols, each with the frequencies of its own table."""
    x, words = [1 << 16] * states, []
    for index in reversed(range(len(symbols))):
        table, at = tables[index], index % states
        frequency, start = table[symbols[index]], sum(table[: symbols[index]])
        if x[at] >= frequency << 20:
            words.append(x[at] & 0xFFFF)
            x[at] >>= 16
        x[at] = x[at] // frequency * TOTAL + start + x[at] % frequency
    return struct.pack(f"<{states}I", *x) + struct.pack(f"<{len(words)}H", *reversed(words))


def side_stream(codes, is_coded):
    if not is_coded:
        return b"\0" + bytes(codes)
    table = shares(codes, True)
    stream = coded(codes, [table] * len(codes), 8)
    return b"\1" + tables_bytes([table]) + struct.pack("<I", len(stream)) + stream


def rotated(elements):
    width = 8 * elements.itemsize
    wide = elements.astype(np.uint64)
    return (2 * wide + (wide >> np.uint64(width - 1))) % np.uint64(1 << width)


def halves(elements, count):
    """The base-2 logarithms of the sizes of `count` intervals. Each step halves the interval with the most elements."""
    width, numbers = 8 * elements.itemsize, np.sort(rotated(elements))
    ranges = [(0, width - 1), (1 << (width - 1), width - 1)]
    members = lambda at: int(np.diff(np.searchsorted(numbers, np.array([at[0], at[0] + (1 << at[1])], np.uint64)))[0])
    while len(ranges) < count:
        at = max(range(len(ranges)), key=lambda i: (members(ranges[i]) if ranges[i][1] else -1, -i))
        start, length = ranges[at]
        ranges[at : at + 1] = [(start, length - 1), (start + (1 << (length - 1)), length - 1)]
    return [length for _, length in ranges]


def write(name, exercises, elements, lengths, k=None, rows=None, columns=None, contexts=(0,), **options):
    """One frame. `contexts` is the table of each context. Options: tables, block, log_states, coded (rows, columns)."""
    elements = np.asarray(elements)
    n, k = len(elements), k or len(elements)
    rows = [0] * -(-n // k) if rows is None else [int(code) for code in rows]
    columns = [0] * k if columns is None else [int(code) for code in columns]
    assert len(rows) == -(-n // k) and len(columns) == k
    starts = np.cumsum([0] + [1 << length for length in lengths[:-1]], dtype=np.uint64)
    numbers = rotated(elements)
    symbols = (np.searchsorted(starts, numbers, "right") - 1).tolist()
    raw = [(int(number - starts[symbol]), lengths[symbol]) for number, symbol in zip(numbers, symbols, strict=True)]
    chosen = [contexts[min(rows[i // k] + columns[i % k], len(contexts) - 1)] for i in range(n)]
    tables = options.get("tables")
    if tables is None:
        members = lambda table: [symbol for symbol, own in zip(symbols, chosen, strict=True) if own == table]
        tables = [shares(members(table), False) for table in range(max(contexts) + 1)]
    block, log_states, is_coded = (options.get(*key) for key in (("block", 4096), ("log_states", 3), ("coded", (0, 0))))
    parts, directory = b"", b""
    for at in range(0, n, block):
        own = [tables[table] for table in chosen[at : at + block]]
        rans, bits = coded(symbols[at : at + block], own, 1 << log_states), packed(raw[at : at + block])
        directory += struct.pack("<II", len(rans), len(bits)) + checksum(rans + bits)
        parts += rans + bits
    rest = bytes([len(tables) - 1, len(contexts) - 1, len(lengths) - 1])
    rest += side_stream(rows, is_coded[0]) + side_stream(columns, is_coded[1])
    rest += packed([(table, 4) for table in contexts] + [(length, 5) for length in lengths])
    rest += tables_bytes(tables) + directory
    start = struct.pack("<4s4BQQII", b"ZXI1", 1, elements.itemsize, 0, log_states, n, k, block, 36 + len(rest))
    frame = start + checksum(start + rest) + rest + parts
    (HERE / f"{name}.zxi1").write_bytes(frame)
    (HERE / f"{name}.bin").write_bytes(elements.astype(elements.dtype.newbyteorder("<")).tobytes())
    bits = 8 * elements.itemsize
    manifest[name] = {"exercises": exercises, "bits": bits, "frame_len": len(frame), "original_len": elements.nbytes}


manifest = {}
random = np.random.default_rng(23)


def bf16(values):
    """The upper halves of float32: bfloat16, rounded towards 0."""
    return (np.asarray(values, np.float32).view(np.uint32) >> 16).astype(np.uint16)


def weights(rows, columns):
    """Normal numbers in rows and columns of different scales: the values, and codes for rows and columns."""
    row, column = random.integers(0, 24, rows), random.integers(0, 12, columns)
    scales = 2.0 ** ((row[:, None] + column) / 4.0 - 12)
    return (random.standard_normal((rows, columns)) * scales).reshape(-1), row, column


# The worked example of docs/formats/zxi1.md.
small = np.array([0x3E4D, 0xBE80, 0x0000, 0x3F80, 0xBF35, 0x3F08], np.uint16)
tables = [[1000, 0, 0, 0, 0, 596, 2500], [0] * 7 + [600, 700, 1800, 996]]
example = {"k": 3, "rows": [0, 2], "columns": [0, 1, 0], "contexts": [0, 1, 1], "tables": tables}
write("example", "the worked example", small, [14, 13, 12, 11, 9, 9, 8, 7, 7, 8, 8], **example)

for bits, kind in ((8, np.uint8), (16, np.uint16), (32, np.uint32)):
    single = np.array([(1 << (bits - 1)) + 5], kind)  # a negative subnormal number
    write(f"one-element-{bits}", "a single element, fewer than states", single, halves(single, 2), log_states=5)

values, row, column = weights(24, 64)
normal, codes = bf16(values), {"k": 64, "rows": row, "columns": column}
write("bf16-one-table", "one context, all elements in one row", normal, halves(normal, 24))
for log_states, is_coded in ((3, (1, 0)), (4, (0, 1)), (5, (1, 1))):
    what = f"{1 << log_states} states; codes of rows {'stored coded'.split()[is_coded[0]]}, "
    what += f"of columns {'stored coded'.split()[is_coded[1]]}"
    options = {"contexts": [code // 7 for code in range(35)], "log_states": log_states, "coded": is_coded} | codes
    write(f"bf16-{1 << log_states}-states", what, normal, halves(normal, 32), **options)
half = values.astype(np.float16).view(np.uint16)
write("f16-columns", "codes of columns only", half, halves(half, 40), k=64, columns=column, contexts=[0, 1, 1, 2, 3])
single = values[:1000].astype(np.float32).view(np.uint32)
options = {"k": 64, "rows": row[:16], "columns": column, "contexts": [0] * 18 + [1] * 6 + [2], "coded": (1, 0)}
write("f32-rows", "float32, the last row short", single, halves(single, 60), **options)

many = weights(40, 50)[0]
contexts = random.integers(0, 16, 256).tolist()
options = {"k": 50, "rows": random.integers(0, 256, 40), "columns": random.integers(0, 256, 50), "coded": (1, 1)}
what = "16 tables, 256 contexts, sums of codes up to 510"
write("bf16-256-contexts", what, bf16(many), halves(bf16(many), 48), contexts=contexts, **options)
what = "three blocks, a row in two blocks, a last block and a last row that are short"
options = {"k": 1000, "rows": range(10), "columns": [0, 1, 2, 3] * 250, "contexts": [0, 0, 0, 1, 1, 2], "coded": (0, 1)}
long = bf16(random.standard_normal(9001) * 0.02)
write("bf16-three-blocks", what, long, halves(long, 32), log_states=4, **options)
byte = random.integers(0, 64, 8197).astype(np.uint8) | (random.integers(0, 2, 8197) << 7).astype(np.uint8)
what = "three blocks, the last one of fewer elements than states; tables that no context has"
options = {"contexts": [0, 2], "rows": [1], "log_states": 5, "coded": (0, 1)}
write("bits8-three-blocks", what, byte, halves(byte, 20), **options)
what = "every element is a row of its own; blocks of 1048576"
options = {"rows": np.arange(700) % 5, "contexts": [0, 1, 2, 3, 4], "coded": (1, 0), "block": 1 << 20}
write("bf16-rows-of-1", what, long[:700], halves(long, 16), k=1, **options)
what = "rows of 3, the last one of 1; blocks of 131072; all codes of rows are equal and coded"
options = {"rows": [7] * 334, "columns": [2, 0, 1], "contexts": [0] * 7 + [0, 1, 2], "coded": (1, 0), "block": 1 << 17}
write("bf16-rows-of-3", what, long[:1000], halves(long, 16), k=3, **options)

lengths = [*range(32), 0]  # their sizes add up to 2^32
starts = np.cumsum([0] + [1 << length for length in lengths[:-1]])
ends = [start + (1 << length) - 1 for start, length in zip(starts.tolist(), lengths, strict=True)]
some = [int(random.integers(starts[symbol], ends[symbol] + 1)) for symbol in random.integers(0, 33, 700)]
numbers = starts.tolist() + ends + some
every = np.array([number >> 1 | (number & 1) << 31 for number in numbers], np.uint32)
write("bits32-every-length", "intervals of 2^0 to 2^31 and their ends; the last one ends at 2^32", every, lengths)
every = random.integers(0, 1 << 32, 700, dtype=np.uint32)
write("bits32-256-intervals", "256 intervals of 2^24, up to 2^32; raw bits end with a byte", every, [24] * 256)
every = random.integers(0, 1 << 16, 2000).astype(np.uint16)
write("bits16-256-intervals", "256 intervals of 2^8, up to 2^16; raw bits end with a byte", every, [8] * 256)
every = np.tile(np.arange(256, dtype=np.uint8), 5)
write("bits8-256-intervals", "256 intervals of 1 integer, up to 2^8; every byte; no raw bits", every, [0] * 256)
every = (np.arange(500) % 128 | np.arange(500) % 2 << 15).astype(np.uint16)
write("bf16-no-raw-bits", "zeros and subnormal numbers alone; no raw bits", every, [0] * 256, log_states=4)

for name, size, infinity in (("bf16", 16, 0x7F80), ("f16", 16, 0x7C00), ("f32", 32, 0x7F800000), ("e5m2", 8, 0x7C)):
    sign, step = 1 << (size - 1), {"bf16": 128, "f16": 1024, "f32": 1 << 23, "e5m2": 4}[name]
    edges = [0, 1, step - 1, step, infinity - 1, infinity, infinity + 1, infinity + step // 2, sign - 1]
    edges = np.array([edge | minus for edge in edges for minus in (0, sign)] * 3, f"u{size // 8}")
    what = "both zeros, infinities, NaNs, subnormal numbers and the largest ones"
    write(f"{name}-edges", what, edges, halves(edges, 20), k=18, rows=[0, 1, 2], contexts=[0, 1], coded=(0, 1))

rare = np.full(6000, 0x3F80, np.uint16)
rare[[17, 4000, 4097, 5000]] = 0xBF81, 0x3F81, 0xBF80, 0x3F81
lengths, table = [14, 13, 12, 11, 10, 9, 8, 1, 1], [0, 0, 0, 0, 0, 0, 0, 4095, 1]
write("bf16-frequency-4095", "frequencies of 4095 and 1; 32 states", rare, lengths, tables=[table], log_states=5)
rare = np.full(3000, 0xFFFFFFFF, np.uint32)
what = "one symbol alone, with frequency 4095; its interval is the last integer; no raw bits"
write("bits32-frequency-4095", what, rare, [*range(31, -1, -1), 0])
(HERE / "manifest.json").write_text(json.dumps({"format": "ZXI1 frames", "cases": manifest}, indent=1) + "\n")
