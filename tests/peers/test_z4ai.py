"""Exchanges files with the real z4ai: it unpacks our files, and we unpack its files.

Also checks the packed size, which may exceed z4ai's by at most half a percent on the
real checkpoint.
"""

import hashlib
import os
import pathlib
import struct
import subprocess
import tempfile
import unittest

import numpy as np
import z4ai
from safetensors.numpy import load as load_official
from safetensors.numpy import save as save_official
from z4ai import model_delta
from z4ai import safetensors as z4ai_safetensors

from corpus import bf16, checkpoint, fine_tunes, minilm, variants

ZSTN = os.environ["ZSTN_BIN"]
VECTORS = pathlib.Path(__file__).resolve().parent.parent / "vectors" / "zstn"


def zstn(*arguments):
    done = subprocess.run([ZSTN, *map(str, arguments)], capture_output=True, text=True)
    return done.returncode, done.stderr


class Exchange(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def at(self, name):
        return pathlib.Path(self.folder.name) / name

    def both_ways(self, original, *, efforts=("balanced",), theirs_too=True, slack=None):
        self.at("m.safetensors").write_bytes(original)
        theirs = z4ai_safetensors.compress_bytes(original) if theirs_too or slack else None
        for effort in efforts:
            status, said = zstn("pack", "--force", self.at("m.safetensors"), "-o", self.at("m.zstn"), "--effort", effort)
            self.assertEqual(status, 0, said)
            ours = self.at("m.zstn").read_bytes()
            self.assertEqual(ours[-28:-20], b"ZSTNINTG", "z4ai reads files with an integrity section")
            self.assertEqual(sha(z4ai_safetensors.decompress_bytes(ours)), sha(original), effort)
            self.read_by_name(ours, original)
            z4ai_safetensors.decompress_file(self.at("m.zstn"), self.at("by_z4ai"))
            self.assertEqual(sha(self.at("by_z4ai").read_bytes()), sha(original), effort)
            status, said = zstn("unpack", "--force", self.at("m.zstn"), "-o", self.at("back"))
            self.assertEqual(status, 0, said)
            self.assertEqual(sha(self.at("back").read_bytes()), sha(original), effort)
            if slack and effort != "fast":
                self.assertLessEqual(len(ours), len(theirs) * slack, f"{len(ours)} against {len(theirs)}")
        if theirs_too:
            self.at("theirs.zstn").write_bytes(theirs)
            status, said = zstn("unpack", "--force", self.at("theirs.zstn"), "-o", self.at("theirs"))
            self.assertEqual(status, 0, said)
            self.assertEqual(sha(self.at("theirs").read_bytes()), sha(original))
        return theirs

    def read_by_name(self, packed, original):
        """z4ai's random access returns the bytes that the header describes."""
        header_len = struct.unpack_from("<Q", original)[0]
        with z4ai_safetensors.ZstnReader.from_bytes(packed) as reader:
            header = reader.header()
            for name in reader.names()[:20]:
                begin, end = header[name]["data_offsets"]
                truth = original[8 + header_len + begin : 8 + header_len + end]
                self.assertEqual(sha(reader.read_raw(name)), sha(truth), name)


def sha(raw):
    return hashlib.sha256(raw).hexdigest()


class Originals(Exchange):
    """Files of other formats, which z4ai restores as the data of a safetensors file."""

    def test_the_form_has_the_tensors_and_ends_with_the_original(self):
        tried = 0
        others = ("npz", "pytorch", "onnx", "tflite", "hdf5", "msgpack", "keras", "tar")
        for folder in ("gguf", "npy", "gguf-bad", *others):
            for path in sorted((VECTORS.parent / folder).iterdir()):
                if path.suffix == ".json":
                    continue
                for options in ([],) if folder in others else ([], ["--no-integrity"]):
                    with self.subTest(path.name, options=options):
                        self.restored_by_z4ai(path, *options)
                        tried += 1
        self.assertGreater(tried, 100)

    def restored_by_z4ai(self, path, *options):
        original = path.read_bytes()
        status, said = zstn("pack", "--force", path, "-o", self.at("o.zstn"), *options)
        self.assertEqual(status, 0, said)
        packed = self.at("o.zstn").read_bytes()
        form = z4ai_safetensors.decompress_bytes(packed)
        self.assertEqual(form[len(form) - len(original) :], original)
        header_len = struct.unpack_from("<Q", form)[0]
        self.assertEqual(len(form), 8 + header_len + len(original))
        with z4ai_safetensors.ZstnReader.from_bytes(packed) as reader:
            header = reader.header()
            for name in reader.names():
                begin, end = header[name]["data_offsets"]
                self.assertEqual(reader.read_raw(name), original[begin:end], name)
        if original:
            tensors = load_official(form)
            self.assertEqual(set(tensors), set(header) - {"__metadata__"})
        status, said = zstn("unpack", "--force", self.at("o.zstn"), "-o", self.at("back"))
        self.assertEqual(status, 0, said)
        self.assertEqual(self.at("back").read_bytes(), original)


class Vectors(Exchange):
    def test_every_official_original(self):
        count = 0
        for path in sorted(VECTORS.glob("*.safetensors")):
            if ".base." in path.name or ".target." in path.name:
                continue
            original = path.read_bytes()
            try:
                load_official(original)
            except Exception as error:  # noqa: BLE001 - any refusal will do
                if "safetensors" in type(error).__module__ or type(error).__name__ == "SafetensorError":
                    continue  # not a valid safetensors file
            with self.subTest(path.name):
                self.both_ways(original)
            count += 1
        self.assertGreater(count, 25)

    def test_files_that_break_the_rules_are_kept_whole(self):
        for name in ("noncontig_hole", "noncontig_trailing", "z4only_unknown_dtype", "z4only_shape_mismatch"):
            original = (VECTORS / f"{name}.safetensors").read_bytes()
            self.at("m.safetensors").write_bytes(original)
            status, said = zstn("pack", "--force", self.at("m.safetensors"), "-o", self.at("m.zstn"))
            self.assertEqual(status, 0, said)
            self.assertEqual(z4ai_safetensors.decompress_bytes(self.at("m.zstn").read_bytes()), original)


class Tail(Exchange):
    """z4ai ignores the data that zstn writes after the frames, and the flag that
    announces them."""

    def test_a_copied_header_and_block_tables(self):
        values = np.random.default_rng(5).normal(0, 0.02, 400_000)
        tensors = {f"layers.{i}.weight": np.arange(8, dtype=np.float32) + i for i in range(1000)}
        original = save_official({**tensors, "wide": values.astype(np.float32)})
        self.both_ways(original)
        packed = self.at("m.zstn").read_bytes()
        self.assertEqual(packed[5], 7, "the flag announces checksums and a copy of the header")
        self.assertIn(b"BLKS", packed[-100_000:])
        with z4ai_safetensors.ZstnReader.from_bytes(packed) as reader:
            self.assertEqual(reader.read_raw("wide"), values.astype(np.float32).tobytes())


PACK_WITH_NODE = """
import { readFile, writeFile } from "node:fs/promises";
import { compress, pack } from "zstn";
const [what, input, output, effort] = process.argv.slice(1);
const made = what === "pack"
  ? new Uint8Array(await (await pack(input, { effort })).blob.arrayBuffer())
  : await compress(await readFile(input), { dtype: what, effort });
await writeFile(output, made);
"""


class Node(Exchange):
    """z4ai and the command line restore files that the npm package packed."""

    def make(self, what, original, effort):
        self.at("m").write_bytes(original)
        command = ["node", "--input-type=module", "-e", PACK_WITH_NODE, what, self.at("m"), self.at("made"), effort]
        # Node resolves the package from this folder.
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, cwd=VECTORS.parents[1])
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.at("made").read_bytes()

    def test_containers(self):
        rng = np.random.default_rng(9)
        weights = bf16(rng.standard_normal((700, 2000)) * 0.02)
        pruned = np.where(rng.random(90_000) < 0.6, 0, rng.standard_normal(90_000)).astype(np.float32)
        original = checkpoint(
            [
                ("w", "BF16", weights.shape, weights.tobytes()),
                ("tied", "BF16", weights.shape, weights.tobytes()),
                ("pruned", "F32", pruned.shape, pruned.tobytes()),
                ("levels", "F16", (40_000,), rng.choice(np.linspace(-1, 1, 15), 40_000).astype(np.float16).tobytes()),
                ("ids", "I64", (3000,), np.arange(3000).tobytes()),
                ("empty", "F32", (0,), b""),
            ]
        )
        for effort in ("fast", "balanced", "max"):
            made = self.make("pack", original, effort)
            self.assertLess(len(made), len(original) * 0.5)
            self.assertEqual(sha(z4ai_safetensors.decompress_bytes(made)), sha(original), effort)
            self.read_by_name(made, original)
            status, said = zstn("unpack", "--force", self.at("made"), "-o", self.at("back"))
            self.assertEqual(status, 0, said)
            self.assertEqual(sha(self.at("back").read_bytes()), sha(original), effort)
        odd = (VECTORS / "noncontig_hole.safetensors").read_bytes()
        self.assertEqual(z4ai_safetensors.decompress_bytes(self.make("pack", odd, "balanced")), odd)

    def test_frames(self):
        rng = np.random.default_rng(10)
        for dtype, raw in (
            ("bf16", bf16(rng.standard_normal(70_001) * 0.02).tobytes()),
            ("float32", rng.standard_normal(50_000).astype(np.float32).tobytes()),
            ("U8", b""),
        ):
            self.assertEqual(z4ai.decompress(self.make(dtype, raw, "balanced")), raw, dtype)


class Deltas(Exchange):
    """Exchanges Z4DM files in both directions; ours are never larger than z4ai's."""

    def exchange(self, base, target):
        self.at("base").write_bytes(base)
        self.at("target").write_bytes(target)
        theirs = model_delta.compress(target, base)
        status, said = zstn("pack", "--force", self.at("target"), "--base", self.at("base"), "-o", self.at("ours"))
        self.assertEqual(status, 0, said)
        ours = self.at("ours").read_bytes()
        self.assertEqual(sha(model_delta.decompress(ours, base)), sha(target))
        self.at("theirs").write_bytes(theirs)
        status, said = zstn("unpack", "--force", self.at("theirs"), "--base", self.at("base"), "-o", self.at("back"))
        self.assertEqual(status, 0, said)
        self.assertEqual(sha(self.at("back").read_bytes()), sha(target))
        return len(ours), len(theirs)

    def test_buffers(self):
        count = 0
        for path in sorted(VECTORS.glob("*.cur.bin")):
            base = path.with_name(path.name.replace(".cur.", ".ref."))
            current, reference = path.read_bytes(), base.read_bytes()
            with self.subTest(path.name):
                status, said = zstn("compress", path, "--base", base, "-o", self.at("ours"), "--force")
                self.assertEqual(status, 0, said)
                self.assertEqual(z4ai.decompress_delta(self.at("ours").read_bytes(), reference), current)
                self.at("theirs").write_bytes(z4ai.compress_delta(current, reference))
                status, said = zstn("decompress", self.at("theirs"), "--base", base, "-o", self.at("back"), "--force")
                self.assertEqual(status, 0, said)
                self.assertEqual(self.at("back").read_bytes(), current)
            count += 1
        self.assertGreater(count, 10)

    def test_vectors(self):
        count = 0
        for path in sorted(VECTORS.glob("*.target.safetensors")):
            if "overlap" in path.name:
                continue  # breaks the safetensors rules; we refuse to pack it
            base = path.with_name(path.name.replace(".target.", ".base."))
            with self.subTest(path.name):
                self.exchange(base.read_bytes(), path.read_bytes())
            count += 1
        self.assertGreater(count, 15)

    def test_a_fine_tune(self):
        rng = np.random.default_rng(8)
        weights = bf16(rng.standard_normal(600_000) * 0.02)
        tuned = weights.copy()
        tuned[rng.random(tuned.size) < 0.02] += 1
        ours, theirs = self.exchange(
            checkpoint([("w", "BF16", weights.shape, weights.tobytes())]),
            checkpoint([("w", "BF16", tuned.shape, tuned.tobytes())]),
        )
        self.assertLess(ours, theirs * 1.05)

    @unittest.skipUnless(os.environ.get("ZSTN_TESTS") == "all", "only in the larger tier")
    def test_fine_tunes_of_a_real_model(self):
        base = variants()["minilm-bf16"]()
        for name, tuned in fine_tunes().items():
            with self.subTest(name):
                ours, theirs = self.exchange(base, tuned)
                self.assertLessEqual(ours, theirs)


class Extended(Exchange):
    """z4ai refuses files with extension frames because of their version."""

    def setUp(self):
        super().setUp()
        random = np.random.default_rng(22)
        scales = random.integers(16, 32, (300, 1)) / 4096
        lattice = bf16(random.integers(-7, 8, (300, 256)) * scales)
        weights = bf16(random.normal(0, 0.02, (300, 256)))
        tuned = weights + random.integers(0, 3, weights.shape, np.uint16)
        write = lambda name, first, second: self.at(name).write_bytes(
            checkpoint([("a", "BF16", first.shape, first.tobytes()), ("b", "BF16", second.shape, second.tobytes())])
        )
        write("base.safetensors", weights, weights)
        write("m.safetensors", tuned, lattice)

    def run_zstn(self, *arguments):
        status, said = zstn(*arguments)
        self.assertEqual(status, 0, said)

    def test_a_container(self):
        original = self.at("m.safetensors").read_bytes()
        self.run_zstn("pack", self.at("m.safetensors"), "--extended")
        with self.assertRaisesRegex(ValueError, "^unsupported ZSTN version 4$"):
            z4ai_safetensors.decompress_bytes(self.at("m.zstn").read_bytes())
        self.run_zstn("convert", self.at("m.zstn"), self.at("old.zstn"))
        self.assertEqual(z4ai_safetensors.decompress_bytes(self.at("old.zstn").read_bytes()), original)

    def test_a_delta(self):
        original, base = self.at("m.safetensors").read_bytes(), self.at("base.safetensors").read_bytes()
        against = ["--base", self.at("base.safetensors")]
        self.run_zstn("pack", self.at("m.safetensors"), "--extended", *against)
        with self.assertRaisesRegex(ValueError, "^unsupported Z4DM version 2$"):
            model_delta.decompress(self.at("m.z4dm").read_bytes(), base)
        self.run_zstn("unpack", self.at("m.z4dm"), *against, "-o", self.at("back.safetensors"))
        self.run_zstn("pack", self.at("back.safetensors"), *against, "-o", self.at("old.z4dm"))
        self.assertEqual(model_delta.decompress(self.at("old.z4dm").read_bytes(), base), original)


class Synthetic(Exchange):
    def test_every_width_and_effort(self):
        rng = np.random.default_rng(5)
        normal = rng.standard_normal(90_001)
        original = save_official(
            {
                "f64": normal[:20_000],
                "f32": normal.astype(np.float32),
                "f16": (normal * 0.02).astype(np.float16),
                "i64": rng.integers(-5, 500, 9_000),
                "i32": np.arange(40_000, dtype=np.int32).reshape(200, 200),
                "u16": rng.integers(0, 65536, 50_000).astype(np.uint16),
                "i8": rng.integers(-128, 128, 30_000).astype(np.int8),
                "zeros": np.zeros((300, 300), np.float32),
                "empty": np.zeros((0, 7), np.float32),
                "scalar": np.array(3, np.float32),
            }
        )
        self.both_ways(original, efforts=("fast", "balanced", "max"))

    def test_bf16_with_independent_blocks(self):
        rng = np.random.default_rng(6)
        weights = bf16(rng.standard_normal((1500, 2000)) * 0.02)
        original = checkpoint(
            [
                ("w", "BF16", weights.shape, weights.tobytes()),
                ("tied", "BF16", weights.shape, weights.tobytes()),
                ("ids", "I64", (3000,), np.arange(3000).tobytes()),
            ]
        )
        self.both_ways(original, efforts=("fast", "balanced", "max"), theirs_too=False)


class MiniLM(Exchange):
    """Exchanges the real checkpoint in three precisions."""

    SLACK = 1.005

    def test_f32(self):
        tensors = [
            (name, "F32" if array.dtype == np.float32 else "I64", array.shape, array.tobytes())
            for name, array in minilm().items()
        ]
        self.both_ways(checkpoint(tensors), slack=self.SLACK)

    def test_bf16(self):
        tensors = [
            (name, "BF16", array.shape, bf16(array).tobytes())
            for name, array in minilm().items()
            if array.dtype == np.float32
        ]
        self.both_ways(checkpoint(tensors), slack=self.SLACK)

    def test_f16(self):
        tensors = [
            (name, "F16", array.shape, array.astype(np.float16).tobytes())
            for name, array in minilm().items()
            if array.dtype == np.float32
        ]
        self.both_ways(checkpoint(tensors), slack=self.SLACK)


class Version(unittest.TestCase):
    def test_the_peer_is_the_one_we_promise(self):
        self.assertEqual(z4ai.__version__, "0.2.0")


if __name__ == "__main__":
    unittest.main()
