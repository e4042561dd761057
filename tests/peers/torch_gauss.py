"""Compares Gauss files of real weights written by gauss-compress 0.1.0 and by us, alternately and on one thread each.

`cargo xtask gauss` prepares everything and runs this script. Times are from numbers in memory to streams in memory
and back, so they include neither gauss-compress's process pool nor its files. Each side restores both files, and
every element must be within the error bound of its original.
"""

import argparse
import contextlib
import importlib.metadata
import io
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

import numpy as np
from gauss import GaussReader, compress, compress_file

import corpus

OURS = os.environ["ZSTN_GAUSS"]
LAYER = "encoder.layer.0."
MATRICES = {
    "attention 384×384": LAYER + "attention.self.query.weight",
    "feed-forward 1536×384": LAYER + "intermediate.dense.weight",
    "feed-forward 384×1536": LAYER + "output.dense.weight",
    "embeddings 30522×384": "embeddings.word_embeddings.weight",
}
SPELLING = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}


def stored(values, dtype):
    """The elements as bytes of this dtype, and their values after rounding to it."""
    if dtype == "BF16":
        bits = corpus.bf16(values)
        return bits.tobytes(), (bits.astype(np.uint32) << 16).view(np.float32)
    values = values.astype({"F32": np.float32, "F16": np.float16}[dtype])
    return values.tobytes(), values.astype(np.float32)


def numbers(raw, dtype, shape):
    if dtype == "BF16":
        return (np.frombuffer(raw, np.uint16).astype(np.uint32) << 16).view(np.float32).reshape(shape)
    return np.frombuffer(raw, {"F32": np.float32, "F16": np.float16}[dtype]).astype(np.float32).reshape(shape)


def bound(values, dtype):
    """The error bound: half a quantisation step, plus half the distance between adjacent numbers of the dtype for
    rounding."""
    step = {"F32": 1000, "F16": 1000, "BF16": 128}[dtype]
    fraction_bits, least = {"F32": (23, -126), "F16": (10, -14), "BF16": (7, -126)}[dtype]
    _, exponent = np.frexp(values.astype(np.float64))
    return 0.5 / step * (1 + 1e-9) + np.ldexp(0.5, np.maximum(exponent - 1, least) - fraction_bits)


class Case:
    def __init__(self, folder, values, dtype, components):
        self.folder, self.dtype, self.components = folder, dtype, components
        raw, self.values = stored(values, dtype)
        self.source = folder / "in.safetensors"
        self.source.write_bytes(corpus.checkpoint([("w", dtype, values.shape, raw)]))
        self.len_bytes = len(raw)

    def file(self, whose):
        return self.folder / f"{whose}.gauss"

    def errors(self, restored):
        """The largest error, and the number of elements beyond the bound."""
        errors = np.abs(restored.astype(np.float64) - self.values)
        larger = np.maximum(np.abs(restored), np.abs(self.values))
        return errors.max(), int((errors > bound(larger, self.dtype)).sum())

    def tasks(self):
        """The data that gauss-compress passes to its workers: the numbers of a shard in single precision."""
        flat, shape = self.values, self.values.shape
        if flat.size > compress.SHARD_THRESHOLD:
            parts = [flat[row : row + compress.SHARD_ROWS] for row in range(0, shape[0], compress.SHARD_ROWS)]
        else:
            parts = [flat]
        for number, part in enumerate(parts):
            yield "w", number, len(parts), part.reshape(-1), self.components, 100, 200_000, SPELLING[self.dtype]

    def encode_theirs(self, seed):
        np.random.seed(seed)  # noqa: NPY002 - the generator that gauss-compress draws from
        seconds = 0.0
        for task in self.tasks():
            started = time.perf_counter()
            result = compress._worker_compress(task)
            seconds += time.perf_counter() - started
            assert not result["error"], result["error"]
        return seconds

    def decode_theirs(self, whose="theirs"):
        reader = GaussReader(str(self.file(whose)))
        started = time.perf_counter()
        restored = reader.decompress("w")
        seconds = time.perf_counter() - started
        if self.dtype == "BF16":  # gauss-compress returns it in single precision
            bits = corpus.bf16(restored)
            restored = (bits.astype(np.uint32) << 16).view(np.float32)
        return seconds, restored.astype(np.float32).reshape(self.values.shape)

    def run_ours(self, *arguments):
        done = subprocess.run([OURS, *map(str, arguments)], capture_output=True, text=True, check=True)
        return float(done.stdout)

    def encode_ours(self):
        return self.run_ours("encode", self.source, self.file("ours"), self.components)

    def decode_ours(self, whose="ours"):
        out = self.folder / "out.safetensors"
        seconds = self.run_ours("decode", self.file(whose), out)
        header, data = corpus.split(out.read_bytes())
        assert header["w"]["dtype"] == self.dtype and header["w"]["shape"] == list(self.values.shape)
        return seconds, numbers(data, self.dtype, self.values.shape)


def measure(case, rounds):
    with contextlib.redirect_stdout(io.StringIO()):
        compress_file(str(case.source), str(case.file("theirs")), K=case.components, n_workers=1)
    times = {(what, whose): [] for what in ("encode", "decode") for whose in ("theirs", "ours")}
    for number in range(rounds):
        times["encode", "theirs"].append(case.encode_theirs(number))
        times["encode", "ours"].append(case.encode_ours())
        for whose, decode in (("theirs", case.decode_theirs), ("ours", case.decode_ours)):
            seconds, restored = decode()
            times["decode", whose].append(seconds)
    sizes, errors = {}, {}
    for whose in ("theirs", "ours"):
        ours, theirs = case.decode_ours(whose)[1], case.decode_theirs(whose)[1]
        assert np.array_equal(ours.view(np.uint32), theirs.view(np.uint32)), f"{whose} is read differently by the two"
        sizes[whose], errors[whose] = case.file(whose).stat().st_size, case.errors(ours)
    worst, beyond = errors["ours"]
    assert beyond == 0, f"{beyond} elements of our file are beyond the bound, by up to {worst}"
    return sizes, errors, times


def cells(sizes, errors, times, len_bytes):
    for whose in ("theirs", "ours"):
        worst, beyond = errors[whose]
        yield f"{sizes[whose]:,}".replace(",", " ")
        yield f"{len_bytes / sizes[whose]:.4f}"
        yield f"{worst:.3e}" + (f", {beyond} beyond" if beyond else "")
    for what in ("encode", "decode"):
        theirs, ours = times[what, "theirs"], times[what, "ours"]
        ratio = statistics.median(a / b for a, b in zip(theirs, ours, strict=True))
        yield f"{statistics.median(theirs):.3f} / {statistics.median(ours):.4f} = {ratio:.1f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("matrices", nargs="*", help="attention, feed-forward, embeddings; the first two by default")
    parser.add_argument("--dtype", choices=SPELLING, default="F32")
    parser.add_argument("--components", type=int, action="append", help="16, say; 4, 16 and 64 by default")
    parser.add_argument("--rounds", type=int, default=3, help="times each side takes its turn; medians are printed")
    options = parser.parse_args()
    wanted = options.matrices or ["attention", "feed-forward"]
    print(f"gauss-compress {importlib.metadata.version('gauss-compress')}", end=", ")
    print(f"constriction {importlib.metadata.version('constriction')}, NumPy {np.__version__}, {options.dtype}\n")
    header = ["matrix", "K", "Gauss", "ratio", "max error", "zstn", "ratio", "max error", "encode, s", "decode, s"]
    print("| " + " | ".join(header) + " |\n|---|" + "--:|" * (len(header) - 1), flush=True)
    model = corpus.minilm()
    for label, name in MATRICES.items():
        if not any(label.startswith(start) for start in wanted):
            continue
        for components in options.components or [4, 16, 64]:
            with tempfile.TemporaryDirectory() as folder:
                case = Case(pathlib.Path(folder), model[name], options.dtype, components)
                row = [label, str(components), *cells(*measure(case, options.rounds), case.len_bytes)]
            print("| " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
