"""Programs that only support safetensors read packed files served by `zstn serve`."""

import json
import os
import subprocess
import tempfile
import unittest
import urllib.parse
import urllib.request
from pathlib import Path

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save_file

ZSTN = os.environ.get("ZSTN_BIN") or str(Path(__file__).parents[2] / "target" / "debug" / "zstn")


class Served(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        random = np.random.default_rng(3)
        self.tensors = {
            "embed": random.normal(0, 0.02, (400, 64)).astype(np.float16),
            "layer.0": random.normal(0, 1, (64, 64)).astype(np.float32),
            "count": np.array(7, dtype=np.int64),
            "empty": np.zeros((0, 3), dtype=np.uint8),
        }
        original = self.folder / "original.safetensors"
        save_file(self.tensors, original, metadata={"format": "np", "a": "b"})
        self.original = original.read_bytes()
        subprocess.run([ZSTN, "pack", "--quiet", original, "-o", self.folder / "m.zstn"], check=True)
        original.unlink()
        server = subprocess.Popen(
            [ZSTN, "serve", self.folder, "--port", "0", "--json"], stdout=subprocess.PIPE, text=True
        )
        self.addCleanup(server.stdout.close)
        self.addCleanup(server.wait)
        self.addCleanup(server.terminate)
        root = json.loads(server.stdout.readline())["url"]
        self.url = urllib.parse.urljoin(root, "m.safetensors")

    def part(self, begin, end):
        request = urllib.request.Request(self.url, headers={"Range": f"bytes={begin}-{end - 1}"})
        with urllib.request.urlopen(request) as answer:
            self.assertEqual(answer.status, 206)
            return answer.read()

    def test_header_and_one_tensor_by_ranges(self):
        length = int.from_bytes(self.part(0, 8), "little")
        header = json.loads(self.part(8, 8 + length))
        self.assertEqual(header["__metadata__"], {"format": "np", "a": "b"})
        begin, end = header["layer.0"]["data_offsets"]
        stored = self.part(8 + length + begin, 8 + length + end)
        self.assertEqual(stored, self.tensors["layer.0"].tobytes())

    def test_a_download_is_the_file_that_was_packed(self):
        path = self.folder / "download.safetensors"
        urllib.request.urlretrieve(self.url, path)
        self.assertEqual(path.read_bytes(), self.original)
        with safe_open(path, framework="numpy") as file:
            self.assertEqual(set(file.keys()), set(self.tensors))
            for name, tensor in self.tensors.items():
                read = file.get_tensor(name)
                self.assertEqual((read.dtype, read.shape), (tensor.dtype, tensor.shape))
                self.assertEqual(read.tobytes(), tensor.tobytes())


if __name__ == "__main__":
    unittest.main()
