"""Writes a safetensors file with the given numbers of bytes and tensors, without holding it in
memory.

    PYTHON tests/peers/synthetic.py FILE --tensors 16 --tensor-bytes 64000000

The tensors are bfloat16, with normally distributed values and one scale per row of 1024. The seed
is fixed, and all tensors differ.
"""

import argparse
import json
import struct

import numpy as np
from corpus import SEED, bf16

ROW = 1024
DEVIATION = 0.02
SPREAD = 0.4  # standard deviation of the logarithm of a row's scale
ROWS_AT_A_TIME = 8192


def header(tensors, rows, first):
    """The header of `tensors` matrices with `rows` rows each, whose names count from `first`."""
    len_bytes = 2 * ROW * rows
    entries = {
        f"layers.{first + number}.weight": {
            "dtype": "BF16",
            "shape": [rows, ROW],
            "data_offsets": [number * len_bytes, (number + 1) * len_bytes],
        }
        for number in range(tensors)
    }
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text


def write(path, tensors, tensor_bytes, first=0):
    """Writes whole rows of every tensor, so a tensor may have up to 2047 bytes less than
    `tensor_bytes`. With another number `first`, all names and values differ."""
    rows = tensor_bytes // (2 * ROW)
    if rows == 0:
        raise SystemExit(f"a tensor has at least one row, {2 * ROW} bytes")
    random = np.random.default_rng(SEED + first)
    with open(path, "wb") as file:
        file.write(header(tensors, rows, first))
        left = rows * tensors
        while left:
            count = min(left, ROWS_AT_A_TIME)
            scales = DEVIATION * np.exp(SPREAD * random.standard_normal((count, 1), dtype=np.float32))
            file.write(bf16(scales * random.standard_normal((count, ROW), dtype=np.float32)).tobytes())
            left -= count


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--tensors", type=int, required=True)
    parser.add_argument("--tensor-bytes", type=int, required=True)
    options = parser.parse_args()
    write(options.file, options.tensors, options.tensor_bytes)


if __name__ == "__main__":
    main()
