"""Sizes of packed checkpoints beside those of peers, as Markdown tables.

`cargo xtask sizes` runs this with everything in place. ZipNN is compared too where it is installed.
"""

import argparse
import os
import pathlib
import subprocess
import tempfile

import z4ai
import zstandard
from z4ai import model_delta
from z4ai import safetensors as z4ai_safetensors

import corpus

ZSTN = os.environ["ZSTN_BIN"]


def ours(folder, original, *arguments):
    """Size of the file that `zstn pack` makes, and what unpacking gives is checked."""
    source, packed, back = (folder / name for name in ("m.safetensors", "m.packed", "m.back"))
    source.write_bytes(original)
    base = [option for option in arguments if option == "--base" or isinstance(option, pathlib.Path)]
    for command in (["pack", source, "-o", packed, *arguments], ["unpack", packed, "-o", back, *base]):
        subprocess.run([ZSTN, *map(str, command), "--force", "--quiet"], check=True)
    assert back.read_bytes() == original
    return packed.stat().st_size


def zipnn_size(original, dtype):
    try:
        from zipnn import ZipNN
    except ImportError:
        return None
    widths = {"bf16": "bfloat16", "f16": "float16", "f32": "float32"}
    return len(ZipNN(input_format="byte", bytearray_dtype=widths[dtype]).compress(original))


def cell(size, against=None):
    if size is None:
        return "–"
    return f"{size:,}".replace(",", " ") + (f" ({size / against:.4f})" if against else "")


def row(*cells):
    print("| " + " | ".join(cells) + " |", flush=True)


def containers(folder, wanted, efforts, level):
    row("checkpoint", "original", "z4ai 0.2.0", *efforts, "ZipNN", f"zstd -{level}")
    row("---", *["--:"] * (4 + len(efforts)))
    for name, make in corpus.variants().items():
        if wanted and name not in wanted:
            continue
        original = make()
        theirs = len(z4ai_safetensors.compress_bytes(original))
        sizes = [ours(folder, original, "--effort", effort) for effort in efforts]
        row(
            name,
            cell(len(original)),
            cell(theirs),
            *(cell(size, theirs) for size in sizes),
            cell(zipnn_size(original, name.rsplit("-", 1)[1].removeprefix("f16in"))),
            cell(len(zstandard.ZstdCompressor(level=level, threads=-1).compress(original))),
        )


def deltas(folder, wanted, efforts):
    row("fine-tune of minilm-bf16", "original", "z4ai 0.2.0", *efforts)
    row("---", *["--:"] * (2 + len(efforts)))
    base = corpus.variants()["minilm-bf16"]()
    (folder / "base.safetensors").write_bytes(base)
    for name, original in corpus.fine_tunes().items():
        if wanted and name not in wanted:
            continue
        theirs = len(model_delta.compress(original, base))
        sizes = [
            ours(folder, original, "--effort", effort, "--base", folder / "base.safetensors") for effort in efforts
        ]
        row(name, cell(len(original)), cell(theirs), *(cell(size, theirs) for size in sizes))


def frames(folder, wanted):
    """Every tensor as a frame of its own at effort max, where z4ai may use all its families."""
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
    parser.add_argument("--zstd-level", type=int, default=19)
    parser.add_argument("--frames", action="store_true", help="compare single frames at effort max instead")
    options = parser.parse_args()
    efforts = options.effort or ["fast", "balanced", "max"]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        print(f"z4ai {z4ai.__version__}; in brackets: ours by theirs\n")
        if options.frames:
            return frames(folder, options.names)
        containers(folder, options.names, efforts, options.zstd_level)
        print()
        deltas(folder, options.names, efforts)


if __name__ == "__main__":
    main()
