"""Measures the time and memory of `zstn pack` and `zstn unpack` for growing models, in bytes and in tensors, and
prints Markdown tables.

    ZSTN_BIN=target/release/zstn PYTHON tests/peers/growth.py --threads 2 --folder /somewhere/with/20/GB

PYTHON is the interpreter in `target/cache/peers`, which `cargo xtask setup` creates. Files are created, measured and
deleted sequentially; the largest needs four times its size. The restored file is compared with the original once.

`cp` copies the restored file within its folder while it is in the page cache. Unlike `cp`, `unpack` ends only when
its file is safely on disk, so the table has two ratios: the time of `unpack` divided by the time of `cp`, and by the
time of `cp` followed by a sync of the copy. Rounds alternate, and the ratios are medians of the rounds' ratios.

Memory is the value that `/usr/bin/time -v` calls the maximum resident set size. The limit is three times the largest
tensor per thread, plus 64 MiB.
"""

import argparse
import filecmp
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass

# NumPy runs in a separate program: until a child executes its program, the memory of this process counts as the
# child's.
SYNTHETIC = pathlib.Path(__file__).with_name("synthetic.py")
LARGEST_TENSOR = 64_000_000
SMALL_TENSOR = 4096
MIB = 1 << 20
UNITS = {"k": 10**3, "M": 10**6, "G": 10**9}


@dataclass
class Model:
    tensors: int
    tensor_bytes: int

    @classmethod
    def of_bytes(cls, len_bytes):
        """A model of `len_bytes` in total, with as few equal tensors as possible."""
        tensors = -(-len_bytes // LARGEST_TENSOR)
        return cls(tensors, len_bytes // tensors)

    @classmethod
    def of_tensors(cls, tensors):
        return cls(tensors, SMALL_TENSOR)


@dataclass
class Run:
    seconds: float
    peak_bytes: int = 0


def run(*command):
    """Runs a command, and returns its duration and peak memory."""
    started = time.perf_counter()
    child = os.posix_spawnp(command[0], [str(word) for word in command], os.environ)
    _, status, usage = os.wait4(child, 0)
    seconds = time.perf_counter() - started
    if status != 0:
        raise SystemExit(f"{' '.join(map(str, command))} failed: {os.waitstatus_to_exitcode(status)}")
    return Run(seconds, usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024))


def synced(source, target):
    """Runs `cp` and waits until the copy is safely on disk."""
    started = time.perf_counter()
    subprocess.run(["cp", source, target], check=True)
    with open(target, "rb") as copy:
        os.fsync(copy.fileno())
    return Run(time.perf_counter() - started)


def measure(model, folder, options):
    """The length of the model, its packing ratio, and the list of runs for each operation."""
    original, packed, restored, copy = (folder / name for name in ("m.safetensors", "m.zstn", "m.back", "m.copy"))
    sizes = ["--tensors", str(model.tensors), "--tensor-bytes", str(model.tensor_bytes)]
    subprocess.run([sys.executable, SYNTHETIC, original, *sizes], check=True)
    zstn = os.environ["ZSTN_BIN"]
    threads = ["--threads", options.threads, "--quiet"]
    memory = ["--memory", options.memory] if options.memory else []
    runs = {"pack": [], "unpack": [], "cp": [], "cp and sync": []}
    for number in range(options.rounds):
        # Earlier writes are flushed first, so that no run waits for them.
        for file in (packed, restored, copy):
            file.unlink(missing_ok=True)
        os.sync()
        runs["pack"].append(run(zstn, "pack", original, "-o", packed, *threads, *memory))
        runs["unpack"].append(run(zstn, "unpack", packed, "-o", restored, *threads))
        if number == 0 and not filecmp.cmp(original, restored, shallow=False):
            raise SystemExit(f"{model}: what was restored is not what was packed")
        runs["cp"].append(run("cp", restored, copy))
        copy.unlink()
        os.sync()
        runs["cp and sync"].append(synced(restored, copy))
    len_bytes = original.stat().st_size
    ratio = packed.stat().st_size / len_bytes
    for file in (original, packed, restored, copy):
        file.unlink()
    return len_bytes, ratio, runs


def row(*cells):
    print("| " + " | ".join(cells) + " |", flush=True)


def number(value):
    return f"{value:,}".replace(",", " ")


def table(models, folder, options):
    row(
        *("bytes", "tensors", "packed, %", "pack, s", "MB/s", "MiB", "unpack, s", "MB/s", "MiB", "limit, MiB"),
        *("cp, s", "unpack, × cp", "unpack, × cp and sync"),
    )
    row(*["--:"] * 13)
    for model in models:
        len_bytes, ratio, runs = measure(model, folder, options)
        cells = [number(len_bytes), number(model.tensors), f"{ratio * 100:.1f}"]
        for what in ("pack", "unpack"):
            seconds = statistics.median(run.seconds for run in runs[what])
            peak = max(run.peak_bytes for run in runs[what])
            cells += [f"{seconds:.3f}", f"{len_bytes / seconds / 1e6:.0f}", f"{peak / MIB:.0f}"]
        cells.append(f"{3 * model.tensor_bytes * options.threads / MIB + 64:.0f}")
        cells.append(f"{statistics.median(run.seconds for run in runs['cp']):.3f}")
        for peer in ("cp", "cp and sync"):
            pairs = zip(runs["unpack"], runs[peer], strict=True)
            cells.append(f"{statistics.median(ours.seconds / theirs.seconds for ours, theirs in pairs):.2f}")
        row(*cells)


def size(text):
    """Parses a number of bytes with an optional decimal unit, such as 10M."""
    unit = UNITS.get(text[-1:], 1)
    return int(float(text.rstrip("kMG")) * unit)


def numbers(parse):
    return lambda text: [parse(word) for word in text.split(",") if word]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=numbers(size), default="10M,100M,1G,4G", help="bytes; an empty list for none")
    parser.add_argument("--counts", type=numbers(int), default="10,100,1000,10000,100000", help="tensors of 4 kB")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--memory", help="what `zstn pack` is told to stay within; its default if left out")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", help="where the files are made; that of temporary files if left out")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="zstn-growth-", dir=options.folder) as folder:
        folder = pathlib.Path(folder)
        for models in ([*map(Model.of_bytes, options.sizes)], [*map(Model.of_tensors, options.counts)]):
            if models:
                table(models, folder, options)
                print()


if __name__ == "__main__":
    main()
