"""Prints the tensors that ztensor 1.2 reads in a file, or writes a file with it.

    ztensor1.py read|write FILE.zt

It is a separate process with that version first in the search path, because the tests
themselves import version 0.1 and both are called `ztensor`. The output is JSON: name to
dtype, shape and bytes.
"""

import importlib.metadata
import json
import sys

import ml_dtypes
import numpy as np
import ztensor

# The safetensors names of the logical types in zTensor 1.2.
TYPES = {
    "f8_e4m3fn": ml_dtypes.float8_e4m3fn,
    "f8_e5m2": ml_dtypes.float8_e5m2,
    "f8_e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
    "f8_e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
}
DTYPES = [
    *(np.float64, np.float32, np.float16, ml_dtypes.bfloat16, np.int64, np.int32, np.int16, np.int8),
    *(np.uint64, np.uint32, np.uint16, np.uint8, np.bool_),
]


def entry(array, shape):
    return {"dtype": array.dtype.name, "shape": list(shape), "bytes": array.tobytes().hex()}


def read(path):
    with ztensor.Reader(path) as reader:
        return {name: entry(reader.read_numpy(name), reader.metadata(name).shape) for name in reader.keys()}


def write(path):
    """Writes every dtype in every storage variant, the logical types, and the sparse layouts."""
    random = np.random.default_rng(12)
    truth = {}
    with ztensor.Writer(path) as writer:

        def dense(name, array, **how):
            writer.write_numpy(name, array, **how)
            truth[name] = entry(array, array.shape)

        for dtype in DTYPES:
            name = np.dtype(dtype).name
            values = random.integers(0, 2 if dtype is np.bool_ else 100, (5, 3)).astype(dtype)
            dense(name, values)
            dense(f"{name}.crc32c", values, checksum="crc32c")
            dense(f"{name}.zstd", values, compress=True, checksum="sha256")
        dense("empty", np.zeros((0, 4), np.float32))
        dense("large / ünïcode", random.standard_normal((300, 401)).astype(np.float32), compress=19)
        for name, dtype in TYPES.items():
            values = random.integers(0, 127, (4, 6)).astype(np.uint8)
            writer.write(name, ztensor.Tensor({"data": values}, type=name))
            truth[name] = entry(values.view(dtype), values.shape)
        halves = random.standard_normal((3, 8)).astype(np.float32)
        writer.write("complex64", ztensor.Tensor({"data": halves.reshape(-1)}, shape=[3, 4], type="complex64"))
        truth["complex64"] = entry(halves.view(np.complex64), (3, 4))

        matrix = np.where(random.random((9, 7)) < 0.3, random.standard_normal((9, 7)), 0).astype(np.float32)
        rows, columns = np.nonzero(matrix)
        values = matrix[rows, columns]
        starts = np.searchsorted(rows, np.arange(10)).astype(np.uint64)
        for layout, parts in {
            "sparse_csr": {"values": values, "indices": columns.astype(np.uint64), "indptr": starts},
            "sparse_coo": {"values": values, "coords": np.concatenate([rows, columns]).astype(np.uint64)},
        }.items():
            for compress in [False, True]:
                name = f"{layout}, zstd" if compress else layout
                tensor = ztensor.Tensor(parts, shape=[9, 7], dtype="float32", format=layout)
                writer.write(name, tensor, compress=compress, checksum="crc32c")
                truth[name] = entry(matrix, matrix.shape)
    return truth


def main():
    version = importlib.metadata.version("ztensor")
    if version != "1.2.3":
        sys.exit(f"this is ztensor {version}, not 1.2.3; is its folder in front of the search path?")
    action, path = sys.argv[1:]
    json.dump({"read": read, "write": write}[action](path), sys.stdout)


if __name__ == "__main__":
    main()
