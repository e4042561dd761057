"""Exchanges files with the real ztensor 1.2.3, the last version that reads our files."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import ml_dtypes
import numpy as np

import corpus

ZSTN = os.environ["ZSTN_BIN"]
WRITE = os.environ["ZSTN_WRITE_ZTENSOR"]
FOLDER = os.environ["ZSTN_ZTENSOR_1"]

DTYPES = {
    **{"F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": ml_dtypes.bfloat16},
    **{"I64": np.int64, "I32": np.int32, "I16": np.int16, "I8": np.int8},
    **{"U64": np.uint64, "U32": np.uint32, "U16": np.uint16, "U8": np.uint8, "BOOL": np.bool_},
}
# Dtypes that version 1.2 added.
MORE_DTYPES = {
    **{"F8_E4M3": ml_dtypes.float8_e4m3fn, "F8_E4M3FNUZ": ml_dtypes.float8_e4m3fnuz},
    **{"F8_E5M2": ml_dtypes.float8_e5m2, "F8_E5M2FNUZ": ml_dtypes.float8_e5m2fnuz, "C64": np.complex64},
}


def tensors():
    """A tensor of every dtype in zTensor 0.1, an empty one, a scalar, and one that needs several zstd blocks."""
    random = np.random.default_rng(13)
    some = {spelling: random.integers(0, 2 if spelling == "BOOL" else 100, (5, 3)) for spelling in DTYPES}
    some = {spelling: (spelling, values.astype(DTYPES[spelling])) for spelling, values in some.items()}
    some["empty"] = ("F32", np.zeros((0, 4), np.float32))
    some["scalar"] = ("BF16", np.array(3.5, ml_dtypes.bfloat16))
    some["large / ünïcode"] = ("F32", random.standard_normal((300, 401)).astype(np.float32))
    return some


def entry(array):
    return {"dtype": array.dtype.name, "shape": list(array.shape), "bytes": array.tobytes().hex()}


@unittest.skipUnless((pathlib.Path(FOLDER) / "ztensor").is_dir(), "ztensor 1.2.3 has no wheel for this Python")
class Exchange(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_program(self, *arguments, **options):
        done = subprocess.run([str(a) for a in arguments], capture_output=True, text=True, **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def ztensor(self, action, file):
        """The tensors that ztensor 1.2.3 reports for a file that it reads or has written."""
        program = pathlib.Path(__file__).with_name("ztensor1.py")
        path = os.pathsep.join([FOLDER, os.environ.get("PYTHONPATH", "")])
        said = self.run_program(
            *(sys.executable, program, action, file), env={**os.environ, "PYTHONPATH": path, "PYTHONUTF8": "1"}
        )
        return json.loads(said)

    def test_ztensor_reads_what_we_write(self):
        truth = tensors()
        checkpoint = corpus.checkpoint([(name, dtype, a.shape, a.tobytes()) for name, (dtype, a) in truth.items()])
        (self.folder / "in.safetensors").write_bytes(checkpoint)
        for storage in ["plain", "raw", "zstd", "big"]:
            file = self.folder / f"{storage}.zt"
            self.run_program(WRITE, self.folder / "in.safetensors", file, storage)
            read = self.ztensor("read", file)
            self.assertEqual(sorted(read), sorted(truth))
            for name, (_, array) in truth.items():
                with self.subTest(storage=storage, tensor=name):
                    # Version 1.2.3 reads data in the other byte order as if it were native (docs/formats/ztensor.md
                    # 7.4).
                    self.assertEqual(read[name], entry(array.byteswap() if storage == "big" else array))

    def test_we_read_what_ztensor_writes(self):
        file = self.folder / "theirs.zt"
        truth = self.ztensor("write", file)
        self.run_program(ZSTN, "verify", file)
        listed = json.loads(self.run_program(ZSTN, "ls", "--json", file))
        listed = {tensor["name"]: (tensor["dtype"], tensor["shape"]) for tensor in listed["tensors"]}
        self.assertEqual(sorted(listed), sorted(truth))
        spelling = {np.dtype(dtype).name: spelling for spelling, dtype in {**DTYPES, **MORE_DTYPES}.items()}
        self.assertEqual({expected["dtype"] for expected in truth.values()}, set(spelling))
        for name, expected in truth.items():
            with self.subTest(tensor=name):
                self.assertEqual(listed[name], (spelling[expected["dtype"]], expected["shape"]))
                out = self.folder / "tensor.bin"
                self.run_program(ZSTN, "get", file, name, "--force", "-o", out)
                self.assertEqual(out.read_bytes().hex(), expected["bytes"])


if __name__ == "__main__":
    unittest.main()
