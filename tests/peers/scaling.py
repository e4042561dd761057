"""Measures how packing, unpacking, verifying and loading scale with the cores of this machine, next to other programs.

    ZSTN_BIN=target/release/zstn PYTHON tests/peers/scaling.py --disk /mnt/disk

PYTHON needs numpy, ml_dtypes and safetensors, as the interpreter in `target/cache/peers` has them after `cargo xtask
setup`. The wheel of zstn, ZipNN and z4ai are measured if they are installed in it, and zstd if the program is.

A synthetic BF16 file of `--size` bytes, and a folder of 8 shards of the same length in total, are measured in a folder
of tmpfs (`--tmpfs`) and in one on a disk (`--disk`). Together, inputs and outputs take four times that length. Every
contestant may use only as many cores as the heading of its column states, one of each physical core before their
siblings, and starts as many threads. One table in Markdown shows GB of the original per second, from the fastest of
`--rounds` alternating rounds. Inputs are in the page cache. `pack` and `unpack` end when their output is safely on
disk; `cp` and `zstd` do not wait for that. ZipNN and z4ai code bytes in memory. What uses one core has one column, and
z4ai, which takes all cores, has the last.

`zstn bench --files` shows what takes the time on one machine.
"""

import argparse
import contextlib
import functools
import hashlib
import importlib.util
import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile
import time

import synthetic
import zipnn_peer
from growth import size
from machine import processor, versions

ZSTN = os.environ["ZSTN_BIN"]
SHARDS = 8
TENSOR_BYTES = 64_000_000
# Prints the duration of the second of two calls in seconds, so that both formats get memory that the system has handed
# out before.
LOAD = """
import gc, sys, time
import ml_dtypes
from {package} import load_file
for _ in range(2):
    loaded = None
    gc.collect()
    started = time.perf_counter()
    loaded = [load_file(path) for path in sys.argv[1:]]
    seconds = time.perf_counter() - started
print(seconds)
"""


def cores_in_order():
    """The cores that this process may use, the first of every physical core before its siblings."""

    def place(core):
        path = pathlib.Path(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list")
        siblings = path.read_text().strip().replace("-", ",").split(",") if path.exists() else [str(core)]
        return siblings.index(str(core)) if str(core) in siblings else 0, core

    return sorted(os.sched_getaffinity(0), key=place)


@contextlib.contextmanager
def restricted(cores):
    """Restricts this process, and the programs that it starts, to these cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def clocked(call, *arguments):
    started = time.perf_counter()
    result = call(*arguments)
    return result, time.perf_counter() - started


def program(*words):
    """The duration of a program in seconds."""
    command = [str(word) for word in words]
    return clocked(functools.partial(subprocess.run, command, check=True, stdout=subprocess.DEVNULL))[1]


def remove(path):
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)


class Model:
    """An original, which is a file or a folder of shards, and the outputs made of it."""

    def __init__(self, folder, total_bytes, shards):
        self.is_folder = shards > 1
        self.packed, self.output = folder / "packed", folder / "output"
        tensors = max(1, round(total_bytes / TENSOR_BYTES / shards))
        tensor_bytes = total_bytes // shards // tensors
        if self.is_folder:
            self.path = folder / "original"
            self.path.mkdir()
            self.files = [self.path / f"model-{n + 1:05}-of-{shards:05}.safetensors" for n in range(shards)]
        else:
            self.path = folder / "model.safetensors"
            self.files = [self.path]
        for number, file in enumerate(self.files):
            synthetic.write(file, tensors, tensor_bytes, number * tensors)
        if self.is_folder:
            names = {f"layers.{n}.weight": self.files[n // tensors].name for n in range(tensors * shards)}
            index = self.path / "model.safetensors.index.json"
            index.write_text(json.dumps({"metadata": {}, "weight_map": names}))
        self.len_bytes = sum(file.stat().st_size for file in self.files)

    def packed_files(self):
        return sorted(self.packed.glob("*.zstn")) if self.is_folder else [self.packed]

    @functools.cached_property
    def sha256(self):
        with open(self.path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()


def load(package, files):
    program = [sys.executable, "-c", LOAD.format(package=package), *map(str, files)]
    return float(subprocess.run(program, check=True, capture_output=True, text=True).stdout)


def zipnn(coder, model, threads, verb):
    """The duration of `compress` or `decompress` of all tensors in memory."""
    total = 0
    for path in model.files:
        with open(path, "rb") as file:
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
            for tensor in header.values():
                start, end = tensor["data_offsets"]
                made = zipnn_peer.make(coder, tensor["dtype"], threads)
                # ZipNN modifies its input.
                coded, seconds = clocked(made.compress, bytearray(file.read(end - start)))
                if verb == "decompress":
                    seconds = clocked(made.decompress, coded)[1]
                total += seconds
    return total


def z4ai(model, verb):
    """The duration of packing or unpacking all files in memory."""
    from z4ai import safetensors as coder

    total = 0
    for path in model.files:
        packed, seconds = clocked(coder.compress_bytes, path.read_bytes())
        if verb == "unpack":
            seconds = clocked(coder.decompress_bytes, packed)[1]
        total += seconds
    return total


def is_installed(module):
    return importlib.util.find_spec(module) is not None


def contestants(model, most):
    """Pairs of a name and a function that takes a number of threads and returns seconds, or None for a number with
    which it is not measured. Functions that come later read what earlier ones wrote."""

    def zstn(verb, *words, output=model.output):
        def call(threads):
            remove(output)
            return program(ZSTN, verb, *words, "--threads", threads, "--quiet")

        return call

    def alone(call):
        return lambda threads: call() if threads == 1 else None

    yield "zstn pack", zstn("pack", model.path, "-o", model.packed, output=model.packed)
    if not model.is_folder:
        words = ("-o", model.output, "--sha256", model.sha256)
        yield "zstn pack --sha256", zstn("pack", model.path, *words)
    yield "zstn unpack", zstn("unpack", model.packed, "-o", model.output)
    yield "zstn verify", zstn("verify", model.packed)
    yield "zstn verify --fast", zstn("verify", model.packed, "--fast")
    if is_installed("zstn"):
        yield "zstn.numpy.load_file", lambda _: load("zstn.numpy", model.packed_files())
    yield "safetensors load_file", alone(lambda: load("safetensors.numpy", model.files))
    yield "sha256sum", alone(lambda: program("sha256sum", *model.files))
    yield "cp", alone(lambda: program("cp", "-r", model.path, model.output))
    if shutil.which("zstd"):
        coded = model.output.with_name("coded")
        into = [coded / f"{file.name}.zst" for file in model.files]

        def zstd(folder, *words):
            remove(folder)
            folder.mkdir()
            return program("zstd", "-q", "--output-dir-flat", folder, *words)

        yield "zstd -1", lambda threads: zstd(coded, "-1", f"-T{threads}", *model.files)
        yield "zstd -d", alone(lambda: zstd(model.output, "-d", *into))
    if coder := zipnn_peer.load():
        for verb in ("compress", "decompress"):
            yield f"ZipNN {verb}", functools.partial(zipnn, coder, model, verb=verb)
    if is_installed("z4ai"):
        for verb in ("pack", "unpack"):
            yield f"z4ai {verb}", lambda threads, verb=verb: z4ai(model, verb) if threads == most else None


def measure(model, counts, rounds):
    """Name -> the shortest duration for each number of threads, or None."""
    cores = cores_in_order()
    best = {}
    for _ in range(rounds):
        for place, threads in enumerate(counts):
            for name, call in contestants(model, counts[-1]):
                remove(model.output)
                # Earlier writes are flushed first, so that nothing waits for them.
                os.sync()
                with restricted(cores[:threads]):
                    seconds = call(threads)
                found = best.setdefault(name, [None] * len(counts))
                if seconds is not None:
                    found[place] = min(seconds, found[place] or seconds)
            remove(model.output)
    return best


def row(*cells):
    print("| " + " | ".join(cells) + " |", flush=True)


def circumstances():
    """Describes the processor, memory, system, and the versions of the programs."""

    def version(*command):
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n")[0].strip()

    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    programs = [version(ZSTN, "--version"), version("sha256sum", "--version")]
    if shutil.which("zstd"):
        programs.append(version("zstd", "--version"))
    programs += [f"{package} (Python)" for package in versions("zstn", "safetensors", "zipnn", "z4ai")]
    yield f"{processor()}, {len(os.sched_getaffinity(0))} cores, {memory:.0f} GB of memory"
    yield f"{platform.system()} {platform.release()}, load average {os.getloadavg()[0]:.1f}"
    yield "; ".join(programs)


def filesystem(folder):
    found = subprocess.run(["df", "--output=fstype", folder], capture_output=True, text=True, check=True)
    return found.stdout.split()[-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=size, default="4G", help="bytes of each input, 4G by default")
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 4, 8, 16], help="1 4 8 16 by default")
    parser.add_argument("--tmpfs", default="/dev/shm", help="a folder in memory; /dev/shm by default")
    parser.add_argument("--disk", help="a folder on the disk to measure; that of temporary files by default")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    most = len(os.sched_getaffinity(0))
    counts = sorted({min(threads, most) for threads in options.threads})
    for line in circumstances():
        print(f"- {line}")
    print(f"- GB of the original per second by the number of threads and cores, fastest of {options.rounds} rounds\n")
    row("folder", "input", "what", *map(str, counts))
    row("---", "---", "---", *["--:"] * len(counts))
    for parent in (options.tmpfs, options.disk):
        for shards in (1, SHARDS):
            with tempfile.TemporaryDirectory(prefix="zstn-scaling-", dir=parent) as folder:
                model = Model(pathlib.Path(folder), options.size, shards)
                kind = filesystem(folder)
                name = f"{model.len_bytes / 1e9:.2f} GB, {shards} {'files' if shards > 1 else 'file'}"
                for what, times in measure(model, counts, options.rounds).items():
                    speeds = [f"{model.len_bytes / 1e9 / seconds:.2f}" if seconds else "" for seconds in times]
                    row(kind, name, what, *speeds)


if __name__ == "__main__":
    main()
