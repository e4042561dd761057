"""Writes the vectors of this folder: frames ZXQ1, and the elements that they decode to.

The elements are computed by numpy, whose products and roundings are those of IEEE 754. Inner frames store their
bytes as they are. `python write.py` overwrites the files with equal ones.
"""

import json
import pathlib
import struct

import numpy as np

HERE = pathlib.Path(__file__).parent
DTYPES = ["bf16", "f16", "f32"]
INTEGERS, TABLE, E4M3, F16, BF16 = range(5)
OFFSETS, EXCEPTIONS = 1, 2


def bf16(values):
    """Nearest bfloat16, ties to even, as 16-bit patterns."""
    bits = values.astype(np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + ((bits >> 16) & 1) + 0x7FFF) >> 16).astype(np.uint16)


def from_bf16(bits):
    return (np.asarray(bits, np.uint32) << 16).view(np.float32)


def patterns(values, dtype):
    """Values as little-endian elements of a dtype."""
    with np.errstate(over="ignore"):
        return {"bf16": bf16, "f16": np.float16, "f32": np.float32}[dtype](values)


def floats(elements, dtype):
    return from_bf16(elements) if dtype == "bf16" else elements.astype(np.float32)


def e4m3(codes):
    exponent, mantissa = codes >> 3 & 15, (codes & 7).astype(np.float64)
    magnitude = np.where(exponent == 0, mantissa / 512, (8 + mantissa) * 2.0 ** (exponent.astype(int) - 10))
    return np.where(codes & 128, -magnitude, magnitude).astype(np.float32)


def stored(raw):
    """A frame Z4AI, opaque, with one plane that is stored."""
    head = b"Z4AI" + bytes([1, 0, 0, 1, 1, 0, 0, 0]) + struct.pack("<I", 0)
    return head + struct.pack("<BQQ", 0, len(raw), len(raw)) + raw


def write(
    name, exercises, dtype, grid, shape, group, symbols, scales, scale_dtype, k=0, table=(), offsets=None, raw=None
):
    """One frame. `raw` gives the elements of the groups that are stored as they are: number -> patterns."""
    rows, columns = shape
    across = -(-columns // group[1])
    symbols = np.asarray(symbols, np.uint16 if grid in (F16, BF16) else np.uint8).reshape(shape)
    stored_scales = patterns(np.asarray(scales, np.float32), scale_dtype)
    row, column = np.indices(shape)
    number = row // group[0] * across + column // group[1]
    scale = floats(stored_scales, scale_dtype)[number]
    if grid == INTEGERS:
        low = -k if offsets is None else np.asarray(offsets)[number] - 128
        values = (symbols.astype(int) + low).astype(np.float32)
        values[symbols == (2 * k + 1 if offsets is None else k + 1)] = -0.0
    else:
        values = {
            TABLE: lambda: np.asarray(table, np.float32)[symbols],
            E4M3: lambda: e4m3(symbols),
            F16: lambda: symbols.view(np.float16).astype(np.float32),
            BF16: lambda: from_bf16(symbols),
        }[grid]()
    with np.errstate(over="ignore", under="ignore"):
        elements = patterns((values * scale).astype(np.float32), dtype)
    flags = (OFFSETS if offsets is not None else 0) | (EXCEPTIONS if raw else 0)
    frames = [stored(symbols.tobytes()), stored(stored_scales.tobytes())]
    if offsets is not None:
        frames.append(stored(bytes(offsets)))
    if raw:
        bitmap, exceptions = bytearray(-(-(int(number.max()) + 1) // 8)), b""
        for at, content in sorted(raw.items()):
            bitmap[at // 8] |= 1 << at % 8
            elements[number == at] = np.asarray(content, elements.dtype)
            exceptions += elements[number == at].tobytes()
        frames += [stored(bytes(bitmap)), stored(exceptions)]
    head = b"ZXQ1" + bytes([1, DTYPES.index(dtype), grid, flags]) + struct.pack("<IIII", *shape, *group)
    head += bytes([len(table) - 1 if grid == TABLE else k, DTYPES.index(scale_dtype)])
    head += np.asarray(table, np.float32).tobytes()
    frame = head + b"".join(struct.pack("<Q", len(inner)) for inner in frames) + b"".join(frames)
    (HERE / f"{name}.zxq1").write_bytes(frame)
    (HERE / f"{name}.bin").write_bytes(elements.tobytes())
    manifest[name] = {"exercises": exercises, "dtype": dtype, "frame_len": len(frame), "original_len": elements.nbytes}


manifest = {}
random = np.random.default_rng(22)

# The worked example of docs/formats/zxq1.md.
write(
    "example",
    "the worked example",
    "bf16",
    INTEGERS,
    (2, 4),
    (1, 2),
    [0, 1, 2, 3, 4, 5, 3, 2],
    [0.5, 3, 0.2890625, 257 / 256],
    "f32",
    k=2,
)
for dtype in DTYPES:
    every = np.arange(0, 256, dtype=np.uint8)
    # Scales of every size, among them those that make halves, subnormal elements, zeros and infinities.
    sizes = np.concatenate([random.random(8) + 0.5, [1e-38, 3e-42, 6e-8, 2.0**-24, 1e-3, 600, 3e38, -1.5]]).astype(
        np.float32
    )
    write(
        f"integers-{dtype}",
        "all integers up to 127 and -0; scales of all sizes",
        dtype,
        INTEGERS,
        (16, 256),
        (1, 256),
        np.tile(every, 16),
        sizes,
        "f32",
        k=127,
    )
    write(
        f"e4m3-{dtype}",
        "all numbers of e4m3fn; scales of all sizes",
        dtype,
        E4M3,
        (16, 254),
        (1, 254),
        np.tile(every[(every & 127) < 127], 16),
        sizes,
        "f32",
    )
    table = np.concatenate([[-0.0, 0.0, 1e-45, 3e38], random.standard_normal(252)]).astype(np.float32)
    write(
        f"table-{dtype}",
        "256 values, -0, subnormal and large ones",
        dtype,
        TABLE,
        (16, 256),
        (16, 16),
        np.tile(every, 16),
        sizes,
        "f32",
        table=table,
    )
    write(
        f"offsets-{dtype}",
        "zero offsets from 0 to 255; scales in half precision",
        dtype,
        INTEGERS,
        (16, 96),
        (1, 32),
        random.integers(0, 17, (16, 96)),
        random.random(48),
        "f16",
        k=15,
        offsets=random.integers(0, 256, 48).tolist(),
    )
    nan = {
        "bf16": 0x7FC1,
        "f16": np.array([0x7E01], np.uint16).view(np.float16)[0],
        "f32": np.array([0x7FC00001], np.uint32).view(np.float32)[0],
    }[dtype]
    write(
        f"exceptions-{dtype}",
        "groups cut off on the right and below, two of them stored as they are, with NaN",
        dtype,
        INTEGERS,
        (10, 21),
        (4, 8),
        random.integers(0, 8, (10, 21)),
        random.random(9),
        "bf16",
        k=3,
        raw={2: [nan, 1] * 10, 7: [0, nan] * 8},
    )
    write(
        f"columns-{dtype}",
        "a scale for each column",
        dtype,
        INTEGERS,
        (12, 7),
        (12, 1),
        random.integers(0, 16, (12, 7)),
        random.random(7),
        "bf16",
        k=7,
    )
halves = np.concatenate([np.arange(0, 0x7C00, 97), np.arange(0x8000, 0xFC00, 101)]).astype(np.uint16)
halves = halves[: len(halves) // 4 * 4].reshape(4, -1)
scales = [0.70710678, 1e-40, 1.0, -5e33]
write(
    "f16-f32",
    "half-precision numbers, subnormal ones too",
    "f32",
    F16,
    halves.shape,
    (1, halves.shape[1]),
    halves,
    scales,
    "f32",
)
brains = np.concatenate([np.arange(0, 0x7F80, 151), np.arange(0x8000, 0xFF80, 157)]).astype(np.uint16)
brains = brains[: len(brains) // 4 * 4].reshape(4, -1)
write(
    "bf16-f32",
    "bfloat16 numbers, subnormal ones and large ones too",
    "f32",
    BF16,
    brains.shape,
    (1, brains.shape[1]),
    brains,
    scales,
    "f32",
)
(HERE / "manifest.json").write_text(json.dumps({"format": "ZXQ1 frames", "cases": manifest}, indent=1) + "\n")
