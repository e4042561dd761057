"""Reads, packs and restores files that the libraries of other formats have written."""

import os
import pathlib
import subprocess
import tarfile
import tempfile
import unittest
import zipfile

import gguf
import h5py
import ml_dtypes
import msgpack
import numpy as np
import onnx
from safetensors.numpy import load_file

ZSTN = os.environ.get("ZSTN_BIN") or str(pathlib.Path(__file__).parents[2] / "target" / "debug" / "zstn")

VECTORS = pathlib.Path(__file__).parents[1] / "vectors"

BF16 = np.dtype(ml_dtypes.bfloat16)


def weights(shape, dtype=np.float32, seed=0):
    """Returns values with the distribution of weights."""
    return (np.random.default_rng(seed).standard_normal(shape) * 0.02).astype(dtype)


def arrays():
    """Returns arrays of several dtypes, orders and sizes, that all libraries can store."""
    return {
        "embed": weights((300, 256)),
        "half": weights((128, 64), np.float16, 1),
        "double": weights((9, 5, 3), np.float64, 2),
        "transposed": np.asfortranarray(weights((40, 70), seed=3)),
        "ids": np.arange(3000, dtype=np.int64).reshape(60, 50),
        "mask": np.arange(24).reshape(4, 6) % 3 == 0,
        "bytes": np.arange(256, dtype=np.uint8),
        "scalar": np.float32(1.5).reshape(()),
        "empty": np.zeros((0, 4), np.float32),
    }


def bits(array):
    """Returns the bytes of an array in C order, with one pattern for NaN."""
    array = np.array(array, order="C")
    if array.dtype.kind == "f" or array.dtype == BF16:
        array[np.isnan(array)] = np.nan
    return array.tobytes()


class Files(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def path(self, name):
        return self.folder / name

    def zstn(self, *arguments):
        done = subprocess.run([ZSTN, *map(str, arguments), "--quiet"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def assert_read(self, path, expected):
        """Asserts that a file has these arrays, and a packed file as well, which restores it."""
        packed, restored = self.path("packed.zstn"), self.path("restored")
        self.zstn("pack", path, "-o", packed, "--force")
        self.zstn("verify", packed, "--against", path)
        self.zstn("unpack", packed, "-o", restored, "--force")
        self.assertEqual(restored.read_bytes(), path.read_bytes())
        for file in (path, packed):
            out = self.path("out.safetensors")
            self.zstn("convert", file, out, "--force")
            found = load_file(out)
            self.assertEqual(sorted(found), sorted(expected), file.name)
            for name, array in expected.items():
                with self.subTest(file=file.name, tensor=name):
                    self.assertEqual((found[name].dtype, found[name].shape), (array.dtype, array.shape))
                    self.assertEqual(bits(found[name]), bits(array))

    def test_numpy(self):
        expected = arrays()
        np.savez(self.path("m.npz"), **expected)
        self.assert_read(self.path("m.npz"), expected)
        np.savez_compressed(self.path("deflated.npz"), **expected)
        self.assert_read(self.path("deflated.npz"), expected)
        swapped = {name: array.astype(array.dtype.newbyteorder(">")) for name, array in expected.items()}
        np.savez(self.path("big-endian.npz"), **swapped)
        self.assert_read(self.path("big-endian.npz"), expected)

    def test_h5py(self):
        expected = arrays()
        named = {f"layers/{key}": array for key, array in expected.items()}
        with h5py.File(self.path("m.h5"), "w") as file:
            for key, array in named.items():
                file.create_dataset(key, data=array)
        self.assert_read(self.path("m.h5"), named)
        few = {key: expected[key] for key in ("embed", "half", "scalar", "empty")}
        with h5py.File(self.path("latest.h5"), "w", libver="latest") as file:
            for key, array in few.items():
                file.create_dataset(key, data=array)
        self.assert_read(self.path("latest.h5"), few)
        with h5py.File(self.path("chunks.h5"), "w") as file:
            file.create_dataset("a", data=expected["embed"], chunks=(70, 64), compression="gzip", shuffle=True)
            file.create_dataset("b", data=expected["ids"], chunks=(16, 50), fletcher32=True)
        self.assert_read(self.path("chunks.h5"), {"a": expected["embed"], "b": expected["ids"]})

    def test_keras(self):
        expected = {f"layers/{key}/vars/0": array for key, array in arrays().items()}
        with h5py.File(self.path("model.weights.h5"), "w") as file:
            for key, array in expected.items():
                file.create_dataset(key, data=array)
        with zipfile.ZipFile(self.path("m.keras"), "w") as archive:
            archive.writestr("metadata.json", "{}")
            # Keras writes the weights as a stream, whose length is not known before.
            with archive.open("model.weights.h5", "w", force_zip64=True) as member:
                member.write(self.path("model.weights.h5").read_bytes())
        self.assert_read(self.path("m.keras"), expected)

    def test_nemo(self):
        checkpoint = VECTORS / "pytorch" / "list.pt"
        self.zstn("convert", checkpoint, self.path("list.safetensors"))
        expected = {f"model_weights.ckpt/{key}": array for key, array in load_file(self.path("list.safetensors")).items()}
        self.path("model_config.yaml").write_text("sample_rate: 16000\n")
        for form in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT):
            with tarfile.open(self.path("m.nemo"), "w", format=form) as archive:
                archive.add(self.path("model_config.yaml"), "./model_config.yaml")
                archive.add(checkpoint, "./model_weights.ckpt")
            self.assert_read(self.path("m.nemo"), expected)

    def test_h5py_with_the_latest_structures(self):
        expected = {}
        with h5py.File(self.path("m.h5"), "w", libver="latest") as file:
            # Long names fill a heap until its blocks consist of blocks.
            for number in range(300):
                name = f"group/{number}-{'n' * 3000}"
                expected[name] = np.array(number, np.int16)
                file.create_dataset(name, data=expected[name])
            for number in range(20):
                file["group"].attrs[f"attribute {number}"] = number
            shapes = {
                "grows": ((3000, 2), (7, 2), (None, 2)),
                "grows_last": ((5, 4000), (2, 3), (9, None)),
                "grows_twice": ((120, 90), (2, 3), (None, None)),
                "fixed": ((100, 100), (1, 1), (100, 100)),
            }
            for name, (shape, chunks, maxshape) in shapes.items():
                for suffix, options in {"": {}, "_gzip": {"compression": "gzip"}, "_checked": {"fletcher32": True}}.items():
                    data = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
                    file.create_dataset(name + suffix, data=data, chunks=chunks, maxshape=maxshape, **options)
                    expected[name + suffix] = data
            file["soft"] = h5py.SoftLink("/fixed")
            expected["soft"] = expected["fixed"]
        self.assert_read(self.path("m.h5"), expected)

    def test_onnx(self):
        expected = {**arrays(), "bf16": weights((64, 32), BF16, 4)}
        tensors = [onnx.numpy_helper.from_array(np.array(a, order="C"), name) for name, a in expected.items()]
        numbers = [1.5, -2.0, 3.25, 0.0]
        tensors.append(onnx.helper.make_tensor("numbers", onnx.TensorProto.FLOAT, [2, 2], numbers))
        expected["numbers"] = np.array(numbers, np.float32).reshape(2, 2)
        graph = onnx.helper.make_graph([], "g", [], [], initializer=tensors)
        model = onnx.helper.make_model(graph)
        onnx.save(model, self.path("m.onnx"))
        self.assert_read(self.path("m.onnx"), expected)

    def test_onnx_with_values_in_another_file(self):
        expected = {"embed": weights((300, 256)), "bias": weights((2048,), np.float16, 1)}
        tensors = [onnx.numpy_helper.from_array(array, name) for name, array in expected.items()]
        graph = onnx.helper.make_graph([], "g", [], [], initializer=tensors)
        model = onnx.helper.make_model(graph)
        path = self.path("m.onnx")
        onnx.save(model, path, save_as_external_data=True, location="m.data", size_threshold=0)
        out = self.path("out.safetensors")
        self.zstn("convert", path, out)
        found = load_file(out)
        self.assertEqual(sorted(found), sorted(expected))
        for name, array in expected.items():
            np.testing.assert_array_equal(found[name], array)

    def test_flax_msgpack(self):
        expected = {name: np.array(array, order="C") for name, array in arrays().items()}

        def packed(array):
            content = (array.shape, array.dtype.name, array.tobytes())
            return msgpack.ExtType(1, msgpack.packb(content, use_bin_type=True))

        tree = {"params": {name: packed(array) for name, array in expected.items()}}
        self.path("m.msgpack").write_bytes(msgpack.packb(tree, strict_types=True))
        self.assert_read(self.path("m.msgpack"), {f"params/{name}": a for name, a in expected.items()})

    def test_gguf(self):
        expected = {}
        path = self.path("m.gguf")
        writer = gguf.GGUFWriter(path, "llama")
        writer.add_uint32("answer", 42)
        for name, array in arrays().items():
            if array.dtype not in (bool, np.uint8) and array.size and array.shape:
                writer.add_tensor(name, np.ascontiguousarray(array))
                expected[name] = array
        kinds = gguf.GGMLQuantizationType
        random = np.random.default_rng(5)
        for kind in gguf.quants._type_traits:
            if kind in (kinds.F32, kinds.F16):
                continue
            block_len, block_bytes = gguf.GGML_QUANT_SIZES[kind]
            # Blocks of any bytes are valid; those with infinite scales have no values.
            blocks = random.integers(0, 256, (16, 4 * block_bytes), dtype=np.uint8)
            with np.errstate(all="ignore"):
                values = gguf.quants.dequantize(blocks, kind)
            if kind == kinds.BF16:
                values = blocks.view(BF16)
            self.assertEqual(values.shape, (16, 4 * block_len))
            name = f"blocks.{kind.name}"
            writer.add_tensor(name, blocks, raw_shape=blocks.shape, raw_dtype=kind)
            expected[name] = values
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        self.assert_read(path, expected)


if __name__ == "__main__":
    unittest.main()
