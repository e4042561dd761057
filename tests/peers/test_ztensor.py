"""Exchanges files with the real ztensor 0.1: it reads our files, and we read its files."""

import os
import pathlib
import subprocess
import tempfile
import unittest

import ml_dtypes
import numpy as np
import ztensor
from safetensors.numpy import save_file

ZSTN = os.environ["ZSTN_BIN"]
WRITE = os.environ["ZSTN_WRITE_ZTENSOR"]

DTYPES = [
    *(np.float64, np.float32, np.float16, np.int64, np.int32, np.int16, np.int8),
    *(np.uint64, np.uint32, np.uint16, np.uint8, np.bool_),
]


def tensors():
    """A tensor of every dtype, an empty one, and one that needs more than one zstd block."""
    random = np.random.default_rng(11)
    some = {np.dtype(d).name: random.integers(0, 2 if d is np.bool_ else 100, (5, 3)).astype(d) for d in DTYPES}
    some["empty"] = np.zeros((0, 4), np.float32)
    some["large / ünïcode"] = random.standard_normal((300, 401)).astype(np.float32)
    return some


class Exchange(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def path(self, name):
        return str(self.folder / name)

    def run_ours(self, *arguments):
        done = subprocess.run([str(a) for a in arguments], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_ztensor_reads_what_we_write(self):
        truth = tensors()
        save_file(truth, self.path("in.safetensors"))
        for storage in ["raw", "big", "zstd"]:
            file = self.path(f"{storage}.zt")
            self.run_ours(WRITE, self.path("in.safetensors"), file, storage)
            with ztensor.Reader(file) as reader:
                self.assertEqual(sorted(reader.get_tensor_names()), sorted(truth))
                for name, expected in truth.items():
                    with self.subTest(storage=storage, tensor=name):
                        read = reader.read_tensor(name)
                        self.assertEqual((read.dtype, read.shape), (expected.dtype, expected.shape))
                        np.testing.assert_array_equal(read, expected)
                        self.assertEqual(reader.get_metadata(name).encoding, "zstd" if storage == "zstd" else "raw")

    def test_we_read_what_ztensor_writes(self):
        truth = tensors()
        truth["bfloat16"] = truth["float32"].astype(ml_dtypes.bfloat16)
        file = self.path("theirs.zt")
        with ztensor.Writer(file) as writer:
            for name, tensor in truth.items():
                writer.add_tensor(name, tensor)
        self.run_ours(ZSTN, "verify", file)
        for name, expected in truth.items():
            with self.subTest(tensor=name):
                out = self.path("tensor.bin")
                self.run_ours(ZSTN, "get", file, name, "--force", "-o", out)
                self.assertEqual(pathlib.Path(out).read_bytes(), expected.tobytes())

    def test_plain_files_are_the_same_byte_for_byte(self):
        truth = {name: tensor for name, tensor in tensors().items() if tensor.size > 0}
        save_file(truth, self.path("in.safetensors"))
        self.run_ours(WRITE, self.path("in.safetensors"), self.path("ours.zt"), "plain")
        with ztensor.Reader(self.path("ours.zt")) as reader:
            order = reader.get_tensor_names()
        with ztensor.Writer(self.path("theirs.zt")) as writer:
            for name in order:
                writer.add_tensor(name, truth[name])
        ours, theirs = (pathlib.Path(self.path(name)).read_bytes() for name in ["ours.zt", "theirs.zt"])
        self.assertEqual(ours, theirs)


if __name__ == "__main__":
    unittest.main()
