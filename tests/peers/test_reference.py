"""Tests the slow decoders in tests/reference on frames written here, on all vectors, and on whole files."""

import itertools
import math
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

import blake3
import ml_dtypes
import numpy as np
import z4ai
from z4ai import model_delta

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TESTS))

from corpus import checkpoint, float_grids, integers  # noqa: E402
from corpus.rounding import nearest, to_bytes  # noqa: E402
from reference import floats, mixes, rans, z4dm, zstn, zxd1, zxi1, zxq1  # noqa: E402
from reference.cursor import Malformed  # noqa: E402
from reference.frame import decode as decode_frame  # noqa: E402

VECTORS = TESTS / "vectors"
DTYPES = {"BF16": ml_dtypes.bfloat16, "F16": np.float16, "F32": np.float32}


def packed(fields):
    """The bytes of (value, bits) pairs, lowest bit first."""
    value = at = 0
    for field, count in fields:
        assert field < 1 << count
        value |= field << at
        at += count
    return value.to_bytes((at + 7) // 8, "little")


def frequencies(symbols):
    """The frequencies of the symbols from 0 to the largest, which sum to 4096; symbols that occur have at least 1."""
    counts = np.bincount(symbols)
    scaled = [max(1, int(count * 4096 // len(symbols))) if count else 0 for count in counts]
    scaled[int(np.argmax(scaled))] += 4096 - sum(scaled)
    return scaled


def table_bytes(frequency_lists):
    fields = []
    for table in frequency_lists:
        first = next(symbol for symbol, frequency in enumerate(table) if frequency)
        fields += [(first, 8), (len(table) - 1, 8)]
        for frequency in table[first:]:
            length = frequency.bit_length()
            fields.append((length, 4))
            if length > 1:
                fields.append((frequency - (1 << (length - 1)), length - 1))
    raw = packed(fields)
    return struct.pack("<H", len(raw)) + raw


def coded(symbols, tables, states):
    """A rANS stream of symbols, each coded with the frequencies of its table."""
    x, words = [1 << 16] * states, []
    for index in reversed(range(len(symbols))):
        table, at = tables[index], index % states
        frequency, start = table[symbols[index]], sum(table[: symbols[index]])
        if x[at] >= frequency << 20:
            words.append(x[at] & 0xFFFF)
            x[at] >>= 16
        x[at] = (x[at] // frequency << 12) + x[at] % frequency + start
    return struct.pack(f"<{states}I", *x) + struct.pack(f"<{len(words)}H", *reversed(words))


def token_of(zigzag):
    """The token, its extra value, and the number of extra bits."""
    if zigzag < 32:
        return zigzag, 0, 0
    top = zigzag.bit_length() - 1
    half = zigzag >> (top - 1) & 1
    return 32 + 2 * (top - 5) + half, zigzag & ((1 << (top - 1)) - 1), top - 1


class Zxd1:
    """A minimal encoder of frames with the given choices."""

    def __init__(self, dtype, group, codes, block=4096, log_states=3, shift=0, expected=None, low_rank=None):
        self.dtype, self.group, self.codes, self.block = dtype, group, codes, block
        self.states, self.shift, self.expected, self.low_rank = 1 << log_states, shift, expected, low_rank
        self.log_states = log_states

    def encode(self, current, base, predicted, coded_codes):
        now, predicted = (floats.read(raw, self.dtype) for raw in (current, predicted))
        contexts = [zxd1.context(p, self.codes[i // self.group], self.dtype) for i, p in enumerate(predicted)]
        tokens, raws = [], []
        for index, (bits, reference) in enumerate(zip(now, predicted, strict=True)):
            position = floats.ordered(reference, self.dtype)
            difference = floats.ordered(bits, self.dtype) - position
            difference = -difference if position < 0 else difference
            if self.codes[index // self.group] == 254:
                difference -= self.expected[contexts[index] - 97]
            zigzag = 2 * difference if difference >= 0 else -2 * difference - 1
            token, extra, count = token_of(zigzag >> self.shift)
            tokens.append(token)
            raws += [(zigzag & ((1 << self.shift) - 1), self.shift), (extra, count)]
        first, last = min(contexts), max(contexts)
        table = frequencies(tokens)
        blocks = []
        for at in range(0, len(now), self.block):
            part = tokens[at : at + self.block]
            bits = packed(raws[2 * at : 2 * (at + self.block)])
            blocks.append((coded(part, [table] * len(part), self.states), bits))
        flags = (self.expected is not None) | (self.low_rank is not None) << 1
        digest = blake3.blake3(base).digest()[:16]
        start = struct.pack("<4s4B16s", b"ZXD1", 1, floats.NAMES.index(self.dtype), flags, self.log_states, digest)
        start += struct.pack("<QQI", len(now), self.group, self.block)
        head = struct.pack("<3B", first, last, 1) + self._codes(coded_codes)
        if self.expected is not None:
            head += struct.pack("<64i", *self.expected)
        head += self.low_rank or b""
        head += packed([field for _ in range(first, last + 1) for field in ((0, 4), (self.shift, 5))])
        head += table_bytes([table])
        head += b"".join(struct.pack("<III", len(a), len(b), zxd1.checksum(a + b)) for a, b in blocks)
        start += struct.pack("<I", len(start) + 8 + len(head))
        return start + struct.pack("<I", zxd1.checksum(start + head)) + head + b"".join(a + b for a, b in blocks)

    def _codes(self, coded_codes):
        if not coded_codes:
            return b"\0" + bytes(self.codes)
        table = frequencies(self.codes)
        stream = coded(self.codes, [table] * len(self.codes), 8)
        return b"\1" + table_bytes([table]) + struct.pack("<I", len(stream)) + stream


def tuned(random, dtype, count, change):
    """Elements, and the same elements with small changes; some are equal, and some are signed zeros or not finite."""
    base = (random.standard_normal(count) * 0.02).astype(DTYPES[dtype])
    moved = (base.astype(np.float32) * (1 + change * random.standard_normal(count))).astype(DTYPES[dtype])
    moved[::7] = base[::7]
    base[:4], moved[:4] = [0.0, -0.0, np.inf, np.nan], [-0.0, 1e-6, np.inf, 1]
    return moved.tobytes(), base.tobytes()


class Differences(unittest.TestCase):
    def test_every_dtype_and_number_of_states(self):
        random = np.random.default_rng(5)
        for dtype in DTYPES:
            for log_states in (3, 4, 5):
                with self.subTest(dtype=dtype, log_states=log_states):
                    current, base = tuned(random, dtype, 5000, 0.003)
                    codes = random.integers(60, 120, -(-5000 // 384)).tolist()
                    codes[3] = 255
                    writer = Zxd1(dtype, 384, codes, log_states=log_states, shift=log_states - 3)
                    frame = writer.encode(current, base, base, coded_codes=log_states == 4)
                    self.assertEqual(zxd1.decode(frame, base), current)

    def test_expected_differences(self):
        random = np.random.default_rng(6)
        base = (random.standard_normal(4500) * 0.02).astype(np.float32)
        expected = random.integers(-1500, 1500, 64).tolist()
        bits = base.view(np.uint32).astype(np.int64)
        moved = bits + np.array(expected)[(bits >> 17) & 63]
        current = moved.astype(np.uint32).tobytes()
        frame = Zxd1("F32", 500, [254] * 9, expected=expected).encode(current, base.tobytes(), base.tobytes(), False)
        self.assertEqual(zxd1.decode(frame, base.tobytes()), current)
        # All tokens are 0, so a block only contains its states.
        self.assertLess(len(frame), 500)

    def test_low_rank(self):
        random = np.random.default_rng(7)
        rows, columns, rank, bits, scales = 40, 64, 3, 10, (9, 11)
        a = random.integers(-511, 512, (rows, rank))
        b = random.integers(-511, 512, (rank, columns))
        fields = [(int(factor) + 512, bits) for factor in (*a.reshape(-1), *b.reshape(-1))]
        low_rank = struct.pack("<HBhhII", rank, bits, *scales, rows, columns) + packed(fields)
        product = (a @ b).astype(np.float64) * 2.0 ** -sum(scales)
        for dtype in ("BF16", "F32"):
            base = (random.standard_normal((rows, columns)) * 0.02).astype(DTYPES[dtype])
            predicted = (base.astype(np.float64) + product).astype(np.float32).astype(DTYPES[dtype])
            current = (predicted.astype(np.float32) * (1 + 0.01 * random.standard_normal((rows, columns)))).astype(DTYPES[dtype])
            frame = Zxd1(dtype, columns, [100] * rows, low_rank=low_rank).encode(
                current.tobytes(), base.tobytes(), predicted.tobytes(), False
            )
            self.assertEqual(zxd1.decode(frame, base.tobytes()), current.tobytes())

    def test_rounding_of_predictions(self):
        """The examples in section 13.2, whose tensors equal the predictions."""
        fields = struct.pack("<HBhhII", 1, 3, 4, 4, 2, 1) + bytes.fromhex("F800")
        # 2^-8 + 2^-30 is (2^22 + 1) · 2^-30, and -2^-30 leads below half a step.
        once = lambda factor: struct.pack("<HBhhII", 1, 24, 15, 15, 1, 1) + packed([(factor + (1 << 23), 24), ((1 << 23) + 1, 24)])
        cases = [
            (fields, [0x3F80, 0xBC00], [0x3F82, 0xBCA0]),
            (once((1 << 22) + 1), [0x3F80], [0x3F80]),
            (once(3 << 21), [0x3F80], [0x3F81]),
            (once(0), [0x8000], [0x0000]),
            (once(1), [0x7FC1], [0x7FC1]),
        ]
        for low_rank, base, predicted in cases:
            base, current = floats.write(base, "BF16"), floats.write(predicted, "BF16")
            writer = Zxd1("BF16", len(predicted), [100], low_rank=low_rank)
            self.assertEqual(zxd1.decode(writer.encode(current, base, current, False), base), current)
        wrong = Zxd1("BF16", 1, [100], low_rank=once(1)[:4] + b"\x7f" + once(1)[5:])
        with self.assertRaises(Malformed):
            zxd1.decode(wrong.encode(current, base, current, False), base)

    def test_the_example_of_the_document(self):
        bits = lambda text: struct.pack("<6H", *(int(word, 16) for word in text.split()))
        frame = bytes.fromhex(
            "5A584431 01 00 00 03 E2EBF07F3307E8F73F2E98F73364B43F 0600000000000000 0600000000000000"
            "00000200 66000000 81A83447 15 23 02 00 59 2000000010004000000100000000004000"
            "0E00 14140D00 00057BA6CE04D0993A13 20000000 01000000 FD0F890E"
            "AA090500 4F760200 DD0C0500 00000100 77060500 4F760200 00000100 00000100 02"
        )
        base, current = bits("3F80 4000 BF00 3E4C C180 3F10"), bits("3F82 4000 BEFD 3E75 C17F 3F10")
        self.assertEqual(zxd1.decode(frame, base), current)

    def test_a_cut_frame_is_refused(self):
        random = np.random.default_rng(8)
        current, base = tuned(random, "BF16", 600, 0.003)
        frame = Zxd1("BF16", 100, [100] * 6).encode(current, base, base, True)
        for length in range(len(frame)):
            with self.assertRaises(Malformed):
                zxd1.decode(frame[:length], base)
        with self.assertRaises(Malformed):
            zxd1.decode(frame + b"\0", base)


class Lattices(unittest.TestCase):
    def frame(self, dtype, grid, flags, shape, group, entries, scale_dtype, table, parts):
        head = struct.pack("<4s4B4I2B", b"ZXQ1", 1, floats.NAMES.index(dtype), grid, flags, *shape, *group, entries, floats.NAMES.index(scale_dtype))
        frames = [z4ai.compress(part) for part in parts]
        lengths = b"".join(struct.pack("<Q", len(frame)) for frame in frames)
        return head + table + lengths + b"".join(frames)

    def test_integers_with_offsets_and_exceptions(self):
        random = np.random.default_rng(9)
        rows, columns = 6, 60  # the second group of a row has 28 elements
        for dtype in DTYPES:
            symbols = random.integers(0, 16, (rows, columns)).astype(np.uint8)
            symbols[1, 40] = 16  # with L = 15: minus zero
            offsets = random.integers(118, 123, (rows, 2)).astype(np.uint8)
            scales = (random.random((rows, 2)) * 0.01).astype(np.float16)
            across = lambda groups: np.repeat(groups.astype(np.float32), 32, axis=1)[:, :columns]
            integers = symbols.astype(np.float32) + across(offsets) - 128
            integers[symbols == 16] = -0.0
            values = (across(scales) * integers).astype(DTYPES[dtype])
            excepted = random.standard_normal(28).astype(DTYPES[dtype])
            values[2, 32:], symbols[2, 32:] = excepted, 0
            bitmap = packed([(group == 5, 1) for group in range(12)])
            parts = [symbols.tobytes(), scales.tobytes(), offsets.tobytes(), bitmap, excepted.tobytes()]
            frame = self.frame(dtype, 0, 3, (rows, columns), (1, 32), 15, "F16", b"", parts)
            self.assertEqual(zxq1.decode(frame), values.tobytes(), dtype)

    def test_tables_and_small_floats(self):
        random = np.random.default_rng(10)
        rows, columns, height, width = 8, 12, 4, 6
        table = np.sort(random.standard_normal(16).astype(np.float32))
        scales = (random.random((2, 2)) * 0.01).astype(np.float32)
        spread = np.kron(scales, np.ones((height, width), np.float32))
        grids = {
            1: (np.uint8, 15, table.tobytes(), lambda symbols: table[symbols]),
            2: (np.uint8, 0, b"", lambda symbols: symbols.view(ml_dtypes.float8_e4m3fn).astype(np.float32)),
            3: (np.uint16, 0, b"", lambda symbols: symbols.view(np.float16).astype(np.float32)),
            4: (np.uint16, 0, b"", lambda symbols: symbols.view(ml_dtypes.bfloat16).astype(np.float32)),
        }
        for grid, (kind, entries, raw_table, values_of) in grids.items():
            symbols = random.integers(0, entries + 1 if entries else 0x40, (rows, columns)).astype(kind)
            values = (spread * values_of(symbols)).astype(np.float32)
            parts = [symbols.tobytes(), scales.tobytes()]
            frame = self.frame("F32", grid, 0, (rows, columns), (height, width), entries, "F32", raw_table, parts)
            self.assertEqual(zxq1.decode(frame), values.tobytes(), grid)


class Intervals(unittest.TestCase):
    """Changes fields of the example in docs/formats/zxi1.md."""

    EXAMPLE = {
        "magic": "5A584931",
        "version": "01",
        "width": "02",
        "zero": "00",
        "log_states": "03",
        "elements": "0600000000000000",
        "row": "0300000000000000",
        "block": "00100000",
        "length": "57000000",
        "checksum": "D501A196",
        "table_count": "01",
        "context_count": "02",
        "interval_count": "0A",
        "row_codes": "00 0002",
        "column_codes": "00 000100",
        "lists": "10E11A5B29A1731002",
        "tables": "1200 00068A1E0040A930710E 14148BF25A84953C",
        "lengths": "20000000 07000000",
        "block_checksum": "D512F1C1",
        "rans": "54A8010088D0060018120400381F0400F4470200F44702000000010000000100",
        "raw": "9A010000600D02",
    }
    ELEMENTS = struct.pack("<6H", 0x3E4D, 0xBE80, 0x0000, 0x3F80, 0xBF35, 0x3F08)

    def frame(self, **changes):
        """The example with other fields. Lengths and checksums fit them unless they are among the changes."""
        fields = {name: bytes.fromhex(text) for name, text in (self.EXAMPLE | changes).items()}
        following = {}
        following["lengths"] = struct.pack("<II", len(fields["rans"]), len(fields["raw"]))
        following["block_checksum"] = struct.pack("<I", zxd1.checksum(fields["rans"] + fields["raw"]))
        head = [name for name in fields if name not in ("rans", "raw")]
        following["length"] = struct.pack("<I", sum(len(fields[name]) for name in head))
        fields |= {name: value for name, value in following.items() if name not in changes}
        if "checksum" not in changes:
            covered = b"".join(fields[name] for name in head if name != "checksum")
            fields["checksum"] = struct.pack("<I", zxd1.checksum(covered))
        return b"".join(fields.values())

    def test_the_example_of_the_document(self):
        example = bytes.fromhex("".join(self.EXAMPLE.values()))
        self.assertEqual(example, (VECTORS / "zxi1" / "example.zxi1").read_bytes())
        self.assertEqual(self.frame(), example)
        self.assertEqual(zxi1.decode(example), self.ELEMENTS)
        self.assertEqual(decode_frame(example, True), self.ELEMENTS)
        with self.assertRaises(Malformed):
            decode_frame(example, False)

    def test_rotation(self):
        for bits, number in ((0, 0), (0x8000, 1), (0x3F80, 32512), (0xBF80, 32513), (0xFFFF, 0xFFFF)):
            self.assertEqual((zxi1.rotated(bits, 16), zxi1.unrotated(number, 16)), (number, bits))
        for bits in range(256):
            self.assertEqual(zxi1.unrotated(zxi1.rotated(bits, 8), 8), bits)

    def test_other_fields_that_are_allowed(self):
        coded_codes = "01" + table_bytes([[4096]]).hex() + "20000000" + "00000100" * 8
        allowed = [
            {"block": "20100000"},
            {"row_codes": "00 00FF", "column_codes": "00 00FF00"},
            {"row": "0600000000000000", "row_codes": coded_codes, "column_codes": "00 000100020202"},
        ]
        for changes in allowed:
            self.assertEqual(zxi1.decode(self.frame(**changes)), self.ELEMENTS, changes)

    def test_broken_rules_are_refused(self):
        lists = lambda contexts, lengths: packed([(t, 4) for t in contexts] + [(r, 5) for r in lengths]).hex()
        lengths = [14, 13, 12, 11, 9, 9, 8, 7, 7, 8, 8]
        tables = self.EXAMPLE["tables"]
        broken = {
            "another magic": [{"magic": "5A584932"}],
            "^version": [{"version": "00"}, {"version": "02"}],
            "elements of": [{"width": "00"}, {"width": "03"}, {"width": "08"}],
            "offset 6": [{"zero": "01"}],
            "states$": [{"log_states": "02"}, {"log_states": "06"}],
            "elements$": [{"elements": "00" * 8}, {"elements": "00000000000000 01"}, {"block": "00000000"}],
            "in a row": [{"row": "00" * 8}, {"row": "07" + "00" * 7}],
            "^blocks of": [{"block": "E00F0000"}, {"block": "10100000"}, {"block": "20001000"}],
            "a head past": [{"length": "26000000"}, {"length": "00010000"}],
            "checksum of the head": [{"checksum": "D501A197"}, {"length": "56000000", "checksum": "D501A196"}],
            "tables$": [{"table_count": "10"}],
            "rows and columns": [{"elements": "00000000 00000100"}],
            "side stream": [{"row_codes": "02 0002"}],
            "a table that does not": [{"lists": lists([0, 2, 1], lengths)}],
            "bits after the intervals": [{"lists": "10E11A5B29A173100A"}],
            "beyond the largest": [{"lists": lists([0, 1, 1], [14] * 4 + [0] * 6 + [1]), "interval_count": "0A"}],
            "without an interval": [{"lists": lists([0, 1, 1], lengths[:10]), "interval_count": "09"}],
            "a frequency of 4096": [{"tables": table_bytes([[4096], [4095, 1]]).hex()}],
            "frequencies add up": [{"tables": table_bytes([[4095], [4095, 1]]).hex()}],
            "symbols 2 to 1": [{"tables": "0200 0201"}],
            "after the tables": [{"tables": tables[:-2] + "7C"}, {"tables": "13" + tables[2:] + "00"}],
            "fields end too early": [{"tables": "11" + tables[2:-2]}, {"raw": "9A010000600D"}],
            "longer than its fields": [{"block_checksum": "D512F1C100"}],
            "are not there": [{"block_checksum": "D512F1"}, {"lengths": "20000000 08000000"}],
            "of a rANS part$": [{"rans": "00000100" * 7}, {"rans": self.EXAMPLE["rans"] + "0000" * 7}],
            "too many elements": [
                {"elements": "2C01000000000000", "row": "2C01000000000000", "row_codes": "00 00", "column_codes": "00" * 301}
            ],
            "of raw bits$": [{"raw": "00" * 12}],
            "another checksum$": [{"block_checksum": "D512F1C2"}],
            "state below": [{"rans": "54A80000" + self.EXAMPLE["rans"][8:]}],
            "at the end": [{"rans": self.EXAMPLE["rans"][:-8] + "01000100"}],
            "words after": [{"rans": self.EXAMPLE["rans"] + "0000"}, {"rans": self.EXAMPLE["rans"] + "00"}],
            "raw bits after": [{"raw": "9A010000600D22"}, {"raw": "9A010000600D0200"}],
        }
        for message, cases in broken.items():
            for changes in cases:
                with self.subTest(changes), self.assertRaisesRegex(Malformed, message):
                    zxi1.decode(self.frame(**changes))

    def test_a_cut_or_longer_or_damaged_frame_is_refused(self):
        example = self.frame()
        for length in range(len(example)):
            damaged = bytearray(example)
            damaged[length] ^= 1
            for raw in (example[:length], bytes(damaged)):
                with self.subTest(length), self.assertRaises(Malformed):
                    zxi1.decode(raw)
        for more in (b"\0", example):
            with self.assertRaises(Malformed):
                zxi1.decode(example + more)


class Vectors(unittest.TestCase):
    """Decodes all golden vectors."""

    def frames(self, kind):
        found = sorted((VECTORS / kind).glob(f"*.{kind}"))
        self.assertGreater(len(found), 15)
        return found

    def test_lattices(self):
        for path in self.frames("zxq1"):
            with self.subTest(path.name):
                self.assertEqual(zxq1.decode(path.read_bytes()), path.with_suffix(".bin").read_bytes())

    def test_intervals(self):
        for path in self.frames("zxi1"):
            with self.subTest(path.name):
                self.assertEqual(zxi1.decode(path.read_bytes()), path.with_suffix(".bin").read_bytes())

    def test_differences(self):
        for path in self.frames("zxd1"):
            with self.subTest(path.name):
                base, tensor = (path.with_suffix(suffix).read_bytes() for suffix in (".base", ".tensor"))
                self.assertEqual(zxd1.decode(path.read_bytes(), base), tensor)


class WholeFiles(unittest.TestCase):
    """Decodes files written by `zstn pack --extended` with the reference alone."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.random = np.random.default_rng(12)

    def pack(self, original, *options, extended=True):
        source, packed = self.folder / "m.safetensors", self.folder / "m.packed"
        source.write_bytes(original)
        command = [os.environ["ZSTN_BIN"], "pack", source, "-o", packed, "--force", "--quiet", *options]
        command += ["--extended"] if extended else []
        subprocess.run(list(map(str, command)), check=True)
        return packed.read_bytes()

    def weights(self, *shape):
        return (self.random.standard_normal(shape) * 0.02).astype(np.float32)

    def test_lattices(self):
        kinds = {
            "rows": lambda values: integers.symmetric(values, 4),
            "groups": lambda values: integers.symmetric_groups(values, 4, 32),
            "offsets": lambda values: integers.asymmetric_groups(values, 4, 32),
            "nf4": lambda values: float_grids.nf4(values, 64),
            "blocks": lambda values: float_grids.fp8_blocks(values, 64, 64),
            "plain": lambda values: values,
        }
        tensors = []
        for dtype in DTYPES:
            for kind, change in kinds.items():
                values = change(self.weights(160, 256))
                tensors.append((f"{kind}.{dtype}", dtype, values.shape, to_bytes(values, dtype)))
        half = self.weights(40, 256).astype(np.float16).astype(np.float32)
        scaled = half * self.random.uniform(0.5, 2, (40, 1)).astype(np.float32)
        tensors.append(("half", "F32", scaled.shape, scaled.tobytes()))
        tensors.append(("numbers", "I64", (3,), np.arange(3).tobytes()))
        original = checkpoint(tensors)
        packed = self.pack(original)
        restored, frames = zstn.decode_file(packed)
        self.assertEqual(restored, original)
        self.assertEqual(packed[4], 4)
        lattices = {name for name, frame in frames.items() if frame[:4] == b"ZXQ1"}
        self.assertEqual({f"{kind}.BF16" for kind in kinds} - {"plain.BF16"} - lattices, set())
        self.assertIn("half", lattices)
        self.assertNotIn("plain.BF16", lattices)

    def test_intervals(self):
        tensors = []
        for dtype in DTYPES:
            values = self.weights(160, 256) * self.random.uniform(0.5, 2, (160, 1)).astype(np.float32)
            tensors.append((f"rows.{dtype}", dtype, values.shape, to_bytes(values, dtype)))
            values = np.where(self.random.random(values.shape) < 0.5, 0, values)
            tensors.append((f"half.{dtype}", dtype, values.shape, to_bytes(values, dtype)))
        original = checkpoint(tensors)
        restored, frames = zstn.decode_file(self.pack(original, "--effort", "max"))
        self.assertEqual(restored, original)
        self.assertEqual({frame[:4] for frame in frames.values()}, {b"ZXI1"})

    def test_differences(self):
        before, after = [], []
        for dtype in DTYPES:
            base = nearest(self.weights(96, 512), dtype)
            noise = self.random.standard_normal(base.shape).astype(np.float32)
            tuned = base * (1 + 0.003 * noise * self.random.uniform(0.1, 3, (96, 1)).astype(np.float32))
            tuned[::5] = base[::5]
            changes = {"tuned": tuned, "same": base, "vector": tuned[1]}
            if dtype != "F16":
                wide = nearest(self.weights(256, 256), dtype)
                factors = self.weights(256, 4), self.weights(4, 256)
                before.append((f"merged.{dtype}", dtype, wide.shape, to_bytes(wide, dtype)))
                merged = wide + nearest((factors[0] @ factors[1]).astype(np.float32), dtype)
                after.append((f"merged.{dtype}", dtype, wide.shape, to_bytes(merged, dtype)))
            for name, values in changes.items():
                shape = values.shape
                old = base[1] if name == "vector" else base
                before.append((f"{name}.{dtype}", dtype, shape, to_bytes(old, dtype)))
                after.append((f"{name}.{dtype}", dtype, shape, to_bytes(values, dtype)))
        decayed = self.weights(96, 512)
        before.append(("decayed", "F32", decayed.shape, decayed.tobytes()))
        after.append(("decayed", "F32", decayed.shape, (decayed * np.float32(1 - 1e-4)).tobytes()))
        after.append(("new.BF16", "BF16", (160, 256), to_bytes(integers.symmetric(self.weights(160, 256), 4), "BF16")))
        base, original = checkpoint(before), checkpoint(after)
        (self.folder / "base.safetensors").write_bytes(base)
        packed = self.pack(original, "--base", self.folder / "base.safetensors")
        restored, payloads = z4dm.decode_file(packed, base)
        self.assertEqual(restored, original)
        self.assertEqual(packed[4], 2)
        kinds = {name: kind for name, (kind, _) in payloads.items()}
        for name in ("tuned.BF16", "tuned.F16", "tuned.F32", "decayed", "merged.BF16", "merged.F32"):
            self.assertEqual(kinds[name], z4dm.DIFFERENCE, name)
        self.assertEqual(kinds["same.BF16"], z4dm.COPY)
        self.assertEqual(payloads["new.BF16"][1][:4], b"ZXQ1")
        flags = {name: payload[6] for name, (kind, payload) in payloads.items() if kind == z4dm.DIFFERENCE}
        self.assertEqual((flags["decayed"] & 1, flags["merged.BF16"] & 2), (1, 2))

    def test_other_bytes_of_the_base(self):
        tensor = lambda name, values: (name, "BF16", values.shape, to_bytes(values, "BF16"))
        embedding, fused = (nearest(self.weights(rows, 256), "BF16") for rows in (300, 96))
        base = checkpoint([tensor("model.embed.weight", embedding), tensor("model.0.qkv_proj.weight", fused)])
        noise = lambda values: values * (1 + 0.003 * self.random.standard_normal(values.shape).astype(np.float32))
        more = np.concatenate([noise(embedding), self.weights(20, 256)])
        parts = {"q": fused[:64], "k": noise(fused[64:80]), "v": fused[80:]}
        split = [tensor(f"model.0.{part}_proj.weight", values) for part, values in parts.items()]
        expected = {
            "renamed": ([tensor("lm.model.embed.weight", embedding)], [z4dm.COPY]),
            "more rows": ([tensor("model.embed.weight", more)], [z4dm.GROWN]),
            "unchanged rows and more": ([tensor("embed.weight", np.concatenate([embedding, more[300:]]))], [z4dm.GROWN]),
            "fewer rows": ([tensor("model.embed.weight", noise(embedding[:250]))], [z4dm.DIFFERENCE]),
            "parts": (split, [z4dm.COPY, z4dm.DIFFERENCE, z4dm.COPY]),
        }
        (self.folder / "base.safetensors").write_bytes(base)
        for what, (tensors, kinds) in expected.items():
            original = checkpoint(tensors)
            packed = self.pack(original, "--base", self.folder / "base.safetensors")
            restored, payloads = z4dm.decode_file(packed, base)
            self.assertEqual(restored, original, what)
            self.assertEqual(packed[4], 3, what)
            self.assertEqual([kind for kind, _ in payloads.values()], kinds, what)


    def test_a_base_computed_from_several_checkpoints(self):
        merges = {
            "linear": lambda a, b: a.astype(np.float64) * 0.3 + b.astype(np.float64) * 0.7,
            "single": lambda a, b: a * np.float32(0.25) + b * np.float32(0.75),
            "angles": lambda a, b: a.astype(np.float64) * 0.412345678901 + b.astype(np.float64) * 0.600123456789,
        }
        sources, merged = [[], []], []
        for dtype, kind in DTYPES.items():
            first = nearest(self.weights(48, 64), dtype)
            second = nearest(first + 0.05 * self.weights(48, 64), dtype)
            second[0, :3] = [0, -0.0, np.inf]
            first[1, :3] = [np.nan, 3e38 if dtype == "BF16" else 6e4, 1e-39 if dtype == "BF16" else 1e-7]
            first, second = (nearest(values, dtype) for values in (first, second))
            for what, merge in merges.items():
                for tensors, values in zip(sources, (first, second), strict=True):
                    tensors.append((f"{what}.{dtype}", dtype, values.shape, to_bytes(values, dtype)))
                with np.errstate(all="ignore"):
                    values = merge(first, second).astype(np.float32)
                merged.append((f"{what}.{dtype}", dtype, values.shape, to_bytes(values, dtype)))
            steps = [values.astype(kind) for values in (first, second)]
            halves = (steps[0] * kind(0.5) + steps[1] * kind(0.5)).astype(np.float32)
            for tensors, values in zip([*sources, merged], (first, second, halves), strict=True):
                tensors.append((f"stepwise.{dtype}", dtype, values.shape, to_bytes(values, dtype)))
        numbers = ("numbers", "I64", (3,), np.arange(3).tobytes())
        for tensors in (sources[1], merged):
            tensors.append(numbers)
        sources, original = [checkpoint(tensors) for tensors in sources], checkpoint(merged)
        options = []
        for number, source in enumerate(sources):
            (self.folder / f"{number}.safetensors").write_bytes(source)
            options += ["--base", self.folder / f"{number}.safetensors"]
        packed = self.pack(original, *options)
        base = mixes.base_of(packed, sources)
        self.assertEqual(z4dm.decode_file(packed, base)[0], original)
        plain = self.pack(original, *options, extended=False)
        self.assertEqual(mixes.base_of(plain, sources), base)
        self.assertEqual(model_delta.decompress(plain, base), original, "z4ai restores it from the computed base")
        with self.assertRaises(Malformed):
            mixes.base_of(packed, sources[:1])

    def test_a_base_in_another_dtype(self):
        for of_base, dtype in itertools.permutations(DTYPES, 2):
            weights = self.weights(60, 50)
            weights[0, :5] = [0, -0.0, -np.inf, 1e-39, 3e38]
            with np.errstate(all="ignore"):
                values = nearest(weights, of_base)
                rounded = nearest(values, dtype)
            source, original = (
                checkpoint([("w", kind, each.shape, to_bytes(each, kind))])
                for kind, each in ((of_base, values), (dtype, rounded))
            )
            (self.folder / "base.safetensors").write_bytes(source)
            packed = self.pack(original, "--base", self.folder / "base.safetensors")
            restored, payloads = z4dm.decode_file(packed, mixes.base_of(packed, [source]))
            self.assertEqual(restored, original, (of_base, dtype))
            self.assertEqual([kind for kind, _ in payloads.values()], [z4dm.COPY], (of_base, dtype))


class Steps(unittest.TestCase):
    """Compares single steps with ml_dtypes."""

    def test_rounding(self):
        random = np.random.default_rng(11)
        bits = random.integers(0, 2**32, 20000, dtype=np.uint32)
        bits[::2] &= 0xFFFF8000  # half of them exactly between two bfloat16
        for value in bits.view(np.float32):
            if math.isnan(value):
                continue
            with np.errstate(over="ignore"):
                for dtype in ("BF16", "F16"):
                    expected = value.astype(DTYPES[dtype]).view(np.uint16)
                    self.assertEqual(floats.nearest(value, dtype), expected, (value, dtype))

    def test_order(self):
        values = [-np.inf, -1.5, -1e-5, -0.0, 0.0, 1e-5, 2.0, np.inf]
        for dtype, kind in DTYPES.items():
            bits = floats.read(np.array(values, kind).tobytes(), dtype)
            order = [floats.ordered(pattern, dtype) for pattern in bits]
            self.assertEqual(order, sorted(order))
            self.assertEqual([floats.unordered(number, dtype) for number in order], bits)

    def test_tables_that_do_not_add_up_are_refused(self):
        with self.assertRaises(Malformed):
            rans.read_tables(packed([(0, 8), (0, 8), (12, 4), (0, 11)]), 1)


if __name__ == "__main__":
    unittest.main()
