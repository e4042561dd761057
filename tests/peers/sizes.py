"""Prints the sizes of packed checkpoints and those reached by peers, as Markdown tables.

`cargo xtask sizes` prepares everything and runs this script. OpenZL, ZipNN and LZ4 are included if they are installed.
"""

import argparse
import functools
import os
import pathlib
import subprocess
import sys
import tempfile

import openzl_peer
import remembered
import xor_peer
import z4ai
import zipnn_peer
import zstandard
from z4ai import model_delta
from z4ai import safetensors as z4ai_safetensors

import corpus
import other_formats

try:
    import lz4.frame
except ImportError:
    lz4 = None

ZSTN = os.environ["ZSTN_BIN"]
EXTENDED = "extended"
SMALLEST = "smallest"
# The mean length of the chunks that Xet cuts a file into.
XET_CHUNK_BYTES = 64 << 10


def ours(folder, original, *arguments):
    """The size of the file that `zstn pack` writes of a checkpoint, after checking that unpacking restores it."""
    source = folder / "m.safetensors"
    source.write_bytes(original)
    return packed_size(source, *arguments)


def packed_size(source, *arguments):
    """The size of the file that `zstn pack` writes, after checking that unpacking restores the original."""
    packed, back = (source.with_name(name) for name in ("m.packed", "m.back"))
    base = [option for option in arguments if option == "--base" or isinstance(option, pathlib.Path)]
    for command in (["pack", source, "-o", packed, *arguments], ["unpack", packed, "-o", back, *base]):
        subprocess.run([ZSTN, *map(str, command), "--force", "--quiet"], check=True)
    assert back.read_bytes() == source.read_bytes()
    return packed.stat().st_size


def arguments_of(column):
    """The options of `zstn pack` for a column: an effort; `extended`, which has the default effort; or `smallest`, which
    has both."""
    options = {EXTENDED: ["--extended"], SMALLEST: ["--extended", "--effort", "max"]}
    return options.get(column) or ["--effort", column]


@functools.cache
def has_extended():
    """Whether this build of zstn can write extension frames; prints a note if it cannot."""
    told = subprocess.run([ZSTN, "pack", "--help"], check=True, capture_output=True, text=True).stdout
    if "--extended" not in told:
        print(f"{ZSTN} has no --extended: the column `extended` is left out", file=sys.stderr)
    return "--extended" in told


def cell(size, against=None):
    if size is None:
        return "–"
    return f"{size:,}".replace(",", " ") + (f" ({size / against:.4f})" if against else "")


def row(*cells):
    print("| " + " | ".join(cells) + " |", flush=True)


def peers(original, level):
    """The sizes for z4ai, OpenZL, ZipNN and, given a level, zstd; None for peers that are not installed."""
    ext, coder, split = openzl_peer.load(), zipnn_peer.load(), corpus.split(original)
    known = lambda package, what, make: remembered.size(package, what, [original], make)
    zstd = zstandard.ZstdCompressor(level=level, threads=-1)
    return [
        known("z4ai", "checkpoint", lambda: len(z4ai_safetensors.compress_bytes(original))),
        known("openzl", openzl_peer.GRAPHS, lambda: openzl_peer.checkpoint_size(ext, *split)) if ext else None,
        known("zipnn", "tensors", lambda: zipnn_peer.checkpoint_size(coder, *split)) if coder else None,
        *([known("zstandard", f"level {level}", lambda: len(zstd.compress(original)))] if level else []),
    ]


def containers(folder, wanted, columns, level):
    zstd = [f"zstd −{level}"] if level else []
    row("checkpoint", "original", "z4ai 0.2.0", *columns, "OpenZL 0.3.0", "ZipNN 0.5.4", *zstd)
    row("---", *["--:"] * (4 + len(columns) + len(zstd)))
    for name, make in corpus.models().items():
        if wanted and name not in wanted:
            continue
        original = make()
        theirs, *others = peers(original, level)
        sizes = [ours(folder, original, *arguments_of(column)) for column in columns]
        row(name, cell(len(original)), cell(theirs), *(cell(size, theirs) for size in sizes), *map(cell, others))


def delta_peers(original, base):
    """The sizes of z4ai's delta, and of OpenZL's frames for differences that are computed for it."""
    known = lambda package, what, make: remembered.size(package, what, [original, base], make)
    theirs = known("z4ai", "delta", lambda: len(model_delta.compress(original, base)))
    if (ext := openzl_peer.load()) is None:
        return theirs, None
    differences = lambda: openzl_peer.difference_size(ext, *corpus.split(original), corpus.split(base))
    return theirs, known("openzl", f"differences, {openzl_peer.GRAPHS}", differences)


def deltas(folder, wanted, columns, seed):
    row("checkpoint against its base", "original", "z4ai 0.2.0", *columns, "OpenZL 0.3.0, of differences")
    row("---", *["--:"] * (3 + len(columns)))
    for name, (make, make_base) in corpus.differences(seed).items():
        if wanted and name not in wanted:
            continue
        original, base = make(), make_base()
        (folder / "base.safetensors").write_bytes(base)
        theirs, openzl = delta_peers(original, base)
        against = ["--base", folder / "base.safetensors"]
        sizes = [ours(folder, original, *arguments_of(column), *against) for column in columns]
        row(name, cell(len(original)), cell(theirs), *(cell(size, theirs) for size in sizes), cell(openzl))


def merges(folder, wanted, seed):
    """Packs merges against all of their sources. The peers take the nearest one."""
    row("merge", "original", "zstn", "from the nearest", "z4ai 0.2.0", "OpenZL 0.3.0, of differences", "XOR and zstd −3")
    row("---", *["--:"] * 6)
    for name, make in corpus.merged_models(seed).items():
        if wanted and name not in wanted:
            continue
        original, sources = make()
        paths = [folder / f"source{number}.safetensors" for number in range(len(sources))]
        for path, source in zip(paths, sources, strict=True):
            path.write_bytes(source)
        every = [argument for path in paths for argument in ("--base", path)]
        sizes = [ours(folder, original, *against) for against in (every, every[:2])]
        hub = xor_peer.Hub()
        hub.add(paths[:1])
        theirs = [*delta_peers(original, sources[0]), hub.add([folder / "m.safetensors"])]
        row(name, *map(cell, [len(original), *sizes, *theirs]))


def xet_size(content):
    """The sum over chunks of the shortest of Xet's schemes: stored, LZ4, or LZ4 of four groups of bytes.

    Xet cuts where the content demands it; here all chunks have its mean length.
    """
    total = 0
    for start in range(0, len(content), XET_CHUNK_BYTES):
        chunk = content[start : start + XET_CHUNK_BYTES]
        groups = b"".join(chunk[first::4] for first in range(4))
        total += min(len(chunk), len(lz4.frame.compress(chunk)), len(lz4.frame.compress(groups)))
    return total


def files(folder, wanted, columns, level):
    """Packs files of other formats; in brackets, the ratio to the original.

    ZipNN takes each file for an array of F32, since it has no tables of their tensors.
    """
    zstd = [f"zstd −{level}"] if level else []
    row("file", "original", *columns, "ZipNN 0.5.4", "Xet's chunks", *zstd)
    row("---", *["--:"] * (3 + len(columns) + len(zstd)))
    coder = zipnn_peer.load()
    for path in other_formats.all_files(folder, wanted):
        original = path.read_bytes()
        known = lambda package, what, make: remembered.size(package, what, [original], make)
        # ZipNN damages its memory if the last number is incomplete.
        whole = len(original) // 4 * 4
        zipnn = lambda: len(zipnn_peer.make(coder, "F32", 1).compress(bytearray(original[:whole]))) + len(original) - whole
        compressor = zstandard.ZstdCompressor(level=level, threads=-1)
        others = [
            known("zipnn", "bytes of F32", zipnn) if coder else None,
            known("lz4", "chunks as Xet's", lambda: xet_size(original)) if lz4 else None,
            *([known("zstandard", f"level {level}", lambda: len(compressor.compress(original)))] if level else []),
        ]
        sizes = [packed_size(path, *arguments_of(column)) for column in columns]
        row(path.name, cell(len(original)), *(cell(size, len(original)) for size in sizes), *map(cell, others))


def frames(folder, wanted):
    """Packs every tensor as a standalone frame at effort max, where z4ai may use all of its families."""
    row("checkpoint", "tensors", "z4ai 0.2.0", "zstn", "larger than z4ai's", "by at most")
    row("---", *["--:"] * 5)
    spelling = {"BF16": "bf16", "F16": "fp16", "F32": "fp32", "I64": "int64"}
    for name, make in corpus.variants().items():
        if wanted and name not in wanted:
            continue
        original = make()
        header, data = corpus.split(original)
        theirs, mine = [], []
        for tensor in header.values():
            begin, end = tensor["data_offsets"]
            dtype = spelling[tensor["dtype"]]
            theirs.append(len(z4ai.compress(data[begin:end], dtype=dtype, effort="max")))
            mine.append(frame(folder, data[begin:end], dtype))
        excess = [ours / size - 1 for ours, size in zip(mine, theirs, strict=True) if ours > size]
        row(
            name,
            str(len(mine)),
            cell(sum(theirs)),
            cell(sum(mine), sum(theirs)),
            str(len(excess)),
            f"{max(excess, default=0):.3%}",
        )


def frame(folder, tensor, dtype):
    source, coded, back = (folder / name for name in ("t.bin", "t.z4ai", "t.back"))
    source.write_bytes(tensor)
    options = ["--dtype", dtype, "--effort", "max"]
    for command in (["compress", source, "-o", coded, *options], ["decompress", coded, "-o", back]):
        subprocess.run([ZSTN, *map(str, command), "--force", "--quiet"], check=True)
    assert back.read_bytes() == tensor
    return coded.stat().st_size


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="checkpoints to measure; all if none is named")
    parser.add_argument("--effort", action="append", choices=("fast", "balanced", "max"))
    parser.add_argument("--zstd-level", type=int, default=19, help="0 leaves zstd out, which takes most of the time")
    parser.add_argument("--seed", type=int, default=corpus.SEED, help="seed of the fine-tunes and adapters made here")
    parser.add_argument("--files", action="store_true", help="measure files of other formats instead")
    parser.add_argument("--frames", action="store_true", help="compare single frames at effort max instead")
    options = parser.parse_args()
    columns = options.effort or ["balanced", "max"]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        if has_extended() and not options.frames:
            columns = [*columns, EXTENDED, SMALLEST]
        if options.files:
            return files(folder, options.names, columns, options.zstd_level)
        print(f"z4ai {z4ai.__version__}; in brackets: ours by theirs\n")
        if options.frames:
            return frames(folder, options.names)
        containers(folder, options.names, columns, options.zstd_level)
        print()
        deltas(folder, options.names, columns, options.seed)
        print()
        merges(folder, options.names, options.seed)


if __name__ == "__main__":
    main()
