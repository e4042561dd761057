"""Compares ways to store a checkpoint, and writes the tables of docs/comparison.md.

    ZSTN_BIN=target/release/zstn PYTHON tests/peers/compare.py [--write] [--rounds 3]

PYTHON is the interpreter in `target/cache/peers`, which `cargo xtask setup` creates. OpenZL and
ZipNN are included if `cargo xtask sizes minilm-bf16` has installed them. The comparison uses one
checkpoint, one thread and alternating rounds. It takes a few minutes, most of them for zstd −19
and xz. A server counts the bytes fetched to read ten rows.
"""

import argparse
import functools
import json
import lzma
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile

import openzl_peer
import zipnn_peer
import zstandard
from machine import processor, versions
from speed import by_openzl, by_z4ai, by_zipnn, by_zstn, clocked
from z4ai import safetensors as z4ai_safetensors

import corpus

ZSTN = os.environ["ZSTN_BIN"]
MODEL = "minilm-bf16"
TENSOR = "embeddings.word_embeddings.weight"
ROWS = (10_000, 10_010)
PAGE = pathlib.Path(__file__).parents[2] / "docs/comparison.md"
# Ways that take seconds per megabyte are run only once.
SLOW = ("zstd −19", "xz −6")

# Way -> whether it reads single tensors, whether it works in a browser, and which damage it
# detects.
FACTS = {
    "safetensors": ("yes, and rows", "yes", "nothing"),
    "zstn": ("yes, and rows", "yes", "all of it"),
    "zstn, effort fast": ("yes, and rows", "yes", "all of it"),
    "z4ai": ("in local files", "with zstn", "some"),
    "ZipNN": ("by a file for each", "no", "nothing"),
    "OpenZL": ("by a file for each", "no", "by checksums, if enabled"),
    "zTensor with zstd": ("yes", "with zstn", "by checksums, if enabled"),
    "zstd −3": ("no", "as a whole", "by its checksum"),
    "zstd −19": ("no", "as a whole", "by its checksum"),
    "xz −6": ("no", "no", "by its checksum"),
}

OTHERS = """\
## Strengths of the others

- **safetensors** needs no decoding: a file is mapped into memory and used in place, also by GPUs (GPUDirect Storage). \
Every tool reads it.
- **zstd, xz** compress anything, are installed everywhere, and are standards with several implementations. Where \
values repeat in whole rows, as in some quantised weights, their search finds more than zstn's default effort \
([figures](benchmarks.md#packed-sizes)).
- **z4ai** defined the format that zstn writes, in Python that is easy to read. Its range coders make a few \
checkpoints smaller than zstn does.
- **ZipNN** computes no digests, compresses any buffer from Python, and hooks into transformers by one call.
- **OpenZL** is a toolkit for any structured data, with trained compressors; the best of its graphs makes most checkpoints \
up to 1 % smaller than zstn does by default, and quantised ones more ([figures](benchmarks.md#packed-sizes)).
- **zTensor** stores sparse tensors as such: coordinates and values.

## Not measured

- **GGUF** stores BF16 weights as they are, so a file is as large as in safetensors. Its own types are quantised, which is \
not lossless, and makes files several times smaller than any of the above.
- **DFloat11** decodes on the GPU while a model runs, so that weights stay packed there. It needs a GPU; its authors \
state 70 % of the size for BF16, where zstn has 66 %.
- **Deduplicating storage** (Xet, restic, borg) saves what several files have in common, and nothing inside a file \
whose bytes are all new. zstn saves both where it knows the [base](families.md).
"""


class Server:
    """A running `zstn serve`, whose log states the length of every response."""

    def __init__(self, folder):
        command = [ZSTN, "serve", folder, "--port", "0", "--json"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.url = json.loads(self._process.stdout.readline())["url"]

    def fetched(self, name):
        """The bytes and requests for reading ten rows of a tensor from the file called `name`."""
        options = ["--rows", f"{ROWS[0]}:{ROWS[1]}", "--summary", "--json"]
        subprocess.run([ZSTN, "get", self.url + name, TENSOR, *options], check=True, capture_output=True)
        # All earlier responses are in the log before this one.
        subprocess.run([ZSTN, "info", self.url + "no-such-file.zstn"], capture_output=True)
        count = total = 0
        while (line := json.loads(self._process.stdout.readline())).get("path") != "/no-such-file.zstn":
            count += 1
            total += line["bytes"] if line["method"] == "GET" else 0
        return total, count

    def stop(self):
        self._process.terminate()
        self._process.wait()
        self._process.stdout.close()


def run(*arguments):
    subprocess.run([ZSTN, *map(str, arguments), "--quiet", "--force"], check=True)


def by_zstd(level, original):
    packed, pack = clocked(zstandard.ZstdCompressor(level=level).compress, original)
    restored, unpack = clocked(zstandard.ZstdDecompressor().decompress, packed)
    assert restored == original
    return len(packed), pack, unpack


def by_xz(original):
    packed, pack = clocked(functools.partial(lzma.compress, preset=6), original)
    restored, unpack = clocked(lzma.decompress, packed)
    assert restored == original
    return len(packed), pack, unpack


def timed_ways(path, original):
    """Way -> function that returns (bytes, seconds to pack, seconds to unpack)."""
    ways = {
        "zstn": functools.partial(by_zstn, path, 1, "balanced"),
        "zstn, effort fast": functools.partial(by_zstn, path, 1, "fast"),
        "z4ai": functools.partial(by_z4ai, original),
    }
    if coder := zipnn_peer.load():
        ways["ZipNN"] = functools.partial(by_zipnn, coder, original, 1)
    if ext := openzl_peer.load():
        ways["OpenZL"] = functools.partial(by_openzl, ext, "deconstruct+huffman", original)
    ways["zstd −3"] = functools.partial(by_zstd, 3, original)
    ways["zstd −19"] = functools.partial(by_zstd, 19, original)
    ways["xz −6"] = functools.partial(by_xz, original)
    return ways


def measure(ways, rounds):
    """Way -> its results, after a round that does not count. Every round begins with another way."""
    found = {name: [] for name in ways}
    names = [name for name in ways if name not in SLOW]
    for number in range(rounds + 1):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            result = ways[name]()
            if number > 0:
                found[name].append(result)
    for name in SLOW:
        found[name].append(ways[name]())
    return found


def one_tensor(original, name):
    """A checkpoint that contains one tensor of `original`."""
    header, data = corpus.split(original)
    entry = header[name]
    raw = data[slice(*entry["data_offsets"])]
    alone = json.dumps({name: {**entry, "data_offsets": [0, len(raw)]}}).encode()
    return len(alone).to_bytes(8, "little") + alone + raw


def fetched(folder, original, found):
    """Way -> (bytes, requests) for ten rows; requests are None if no reader by ranges was run."""
    path = folder / "m.safetensors"
    run("pack", path, "-o", folder / "zstn.zstn")
    run("pack", path, "-o", folder / "fast.zstn", "--effort", "fast")
    run("convert", path, folder / "m.zt", "--zstd")
    (folder / "z4ai.zstn").write_bytes(z4ai_safetensors.compress_bytes(original))
    server = Server(folder)
    files = {
        "safetensors": "m.safetensors",
        "zstn": "zstn.zstn",
        "zstn, effort fast": "fast.zstn",
        "z4ai": "z4ai.zstn",
        "zTensor with zstd": "m.zt",
    }
    try:
        counted = {way: server.fetched(name) for way, name in files.items()}
    finally:
        server.stop()
    alone = one_tensor(original, TENSOR)
    if "ZipNN" in found:
        counted["ZipNN"] = (by_zipnn(zipnn_peer.load(), alone, 1)[0], None)
    if "OpenZL" in found:
        counted["OpenZL"] = (by_openzl(openzl_peer.load(), "deconstruct+huffman", alone)[0], None)
    for way in ("zstd −3", "zstd −19", "xz −6"):
        counted[way] = (found[way][0][0], None)
    return counted


def number(value):
    return f"{value:,}".replace(",", " ")


def rate(original, seconds):
    if not seconds:
        return "–"
    speed = len(original) / 1e6 / statistics.median(seconds)
    return f"{speed:.0f}" if speed >= 10 else f"{speed:.2g}"


def rows(folder, original, rounds):
    path = folder / "m.safetensors"
    path.write_bytes(original)
    found = measure(timed_ways(path, original), rounds)
    counted = fetched(folder, original, found)
    sizes = {"safetensors": len(original), "zTensor with zstd": (folder / "m.zt").stat().st_size}
    sizes.update((way, results[0][0]) for way, results in found.items())
    for way, (single, browser, damage) in FACTS.items():
        if way not in sizes:
            continue
        results = found.get(way, [])
        size, (total, requests) = sizes[way], counted[way]
        ten = number(total) + (f" in {requests}" if requests else "")
        times = [rate(original, [result[k] for result in results]) for k in (1, 2)]
        yield [way, number(size), f"{size / len(original):.3f}", *times, ten, single, browser, damage]


def installed_versions():
    ours = subprocess.run([ZSTN, "--version"], check=True, capture_output=True, text=True).stdout.strip()
    theirs = versions("z4ai", "zipnn", "openzl", "zstandard")
    zstd = ".".join(map(str, zstandard.ZSTD_VERSION))
    return ", ".join([ours, *theirs, f"zstd {zstd}", f"Python {platform.python_version()}"])


def page(table, rounds):
    load = os.getloadavg()[0]
    told = f"medians of {rounds} alternating rounds" if rounds > 1 else "one round"
    busy = f" Other programs were running (load average {load:.0f}), so speeds are low and rough; the sizes are exact." if load > 2 else ""
    heads = ["way", "bytes", "of the original", "pack, MB/s", "unpack, MB/s", "ten rows of one tensor, bytes read"]
    heads += ["reads single tensors", "in a browser", "damage it finds"]
    lines = ["| " + " | ".join(heads) + " |", "|---|" + "--:|" * 5 + "---|" * 3]
    lines += ["| " + " | ".join(cells) + " |" for cells in table]
    return f"""# Ways to store a checkpoint

All of these restore every bit. The checkpoint is all-MiniLM-L6-v2 in BF16, 45 MB; the ten rows are of its largest \
tensor, 23 MB. `tests/peers/compare.py` writes this page:

```sh
cargo build --release -p zstn-cli && cargo xtask sizes minilm-bf16    # installs the others
ZSTN_BIN=target/release/zstn target/cache/peers/bin/python tests/peers/compare.py --write
```

{chr(10).join(lines)}

Speeds are MB of the original per second, in memory and on one thread, {told} (zstd −19 and xz once); z4ai takes all \
cores. zstn computes and compares checksums and digests in that time. Measured on \
{processor()}, {os.cpu_count()} cores: {installed_versions()}.{busy} [More, and other checkpoints](benchmarks.md).

Ten rows: the bytes that a reader fetches from a server, including the index; "in 3" is the number of requests that \
`zstn get` sent. ZipNN and OpenZL have no file of many tensors, so the figure is for one packed tensor. zTensor \
files were written by `zstn convert --zstd`.

{OTHERS}"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write docs/comparison.md instead of printing it")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        table = list(rows(pathlib.Path(folder), corpus.models()[MODEL](), options.rounds))
    for way in set(FACTS) - {cells[0] for cells in table}:
        print(f"{way} is not installed and left out", file=sys.stderr)
    text = page(table, options.rounds)
    if options.write:
        PAGE.write_text(text)
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
