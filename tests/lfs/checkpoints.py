"""Creates small safetensors files that compress like real ones."""

import json
import random
import struct


def write(path, seed, elements=20_000):
    """Writes a bfloat16 matrix of normally distributed values, and a few small tensors."""
    generator = random.Random(seed)
    values = [generator.gauss(0, 0.02) for _ in range(elements)]
    # bfloat16 is the upper half of binary32.
    singles = struct.pack(f"<{elements}f", *values)
    weights = b"".join(singles[i + 2 : i + 4] for i in range(0, len(singles), 4))
    tensors = {
        "weight": ("BF16", [elements], weights),
        "bias": ("F32", [4], struct.pack("<4f", 0, 1, 2, seed)),
        "empty": ("U8", [0], b""),
    }
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, (dtype, shape, content) in tensors.items():
        offsets = [len(data), len(data) + len(content)]
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": offsets}
        data += content
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def write_with_gap(path):
    """Writes a file that has bytes outside all tensors, which safetensors does not
    allow. Such a file is packed as a whole."""
    header = {"a": {"dtype": "U8", "shape": [9000], "data_offsets": [1000, 10_000]}}
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(10_000))


def write_many(folder, count, elements=20_000):
    for seed in range(count):
        write(folder / f"m{seed}.safetensors", seed, elements)


def noise(length):
    return random.Random(length).randbytes(length)
