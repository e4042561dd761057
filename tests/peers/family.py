"""Packs twelve checkpoints sequentially into one folder, each against the best base in the folder.

    ZSTN_BIN=target/release/zstn PYTHON tests/peers/family.py

PYTHON is the interpreter in `target/cache/peers`, which `cargo xtask setup` creates. Checkpoints arrive in the order
of the table, as they would at a hub. Each is packed with `--base auto --family FOLDER --extended`, where FOLDER
contains the packed files of the earlier ones and no originals, so a base may need a base itself. Each checkpoint is
restored and compared. If `tests/peers/trained.py` has saved training runs, they are among the twelve; otherwise
synthetic fine-tunes and adapters take their places.
"""

import argparse
import functools
import json
import os
import pathlib
import subprocess
import tempfile

import corpus
from corpus import published, quantised, trained
from corpus.adapters import merged
from corpus.base_model import rounded

ZSTN = os.environ["ZSTN_BIN"]
# The share that BitX and deduplication save on a whole hub, as reported in the ZipLLM paper.
ZIPLLM_SAVED = 0.54


def members():
    """Name -> maker: the model, full fine-tunes, adapters, quantised uploads, and two versions of another network."""
    real, runs = published.models(), trained.pairs()
    tuned = [
        ("trained-full120-bf16", "minilm-ft2-bf16"),
        ("trained-full240-bf16", "minilm-ft20-bf16"),
        ("trained-purebf16-bf16", "minilm-ftall-bf16"),
    ]
    found = {"minilm-bf16": functools.partial(rounded, "BF16"), "sre-bf16": real["sre-bf16"]}
    for name, instead in tuned:
        found |= {name: runs[name][0]} if name in runs else {instead: corpus.differences()[instead][0]}
    for rank in (8, 16):
        name = f"trained-lora{rank}-bf16"
        made = functools.partial(merged, rank, "BF16")
        found |= {name: runs[name][0]} if name in runs else {f"minilm-lora{rank}-bf16": made}
    for name in ("minilm-int4g128-bf16", "minilm-nf4g64-bf16", "minilm-fp8b128-bf16"):
        found[name] = quantised.MORE[name]
    return found | {name: real[name] for name in ("captcha0.10.0-f32", "captcha1.0.0-f32")}


def zstn(*arguments):
    return subprocess.run([ZSTN, *map(str, arguments)], check=True, capture_output=True, text=True).stdout


def plain_size(source, folder):
    """The size of the packed file without a base and without extensions."""
    return json.loads(zstn("pack", source, "-o", folder / "plain.zstn", "--force", "--json"))["packed_bytes"]


def pack(source, family, options):
    """Packs against the best member of the family, checks that the original is restored, and returns the report."""
    # A family without members cannot be searched.
    choice = ["--base", "auto", "--family", family] if any(family.iterdir()) else []
    told = json.loads(zstn("pack", source, "-o", family, *choice, *options, "--json"))
    bases = [part for base in told["bases"] for part in ("--base", base)]
    back = source.with_suffix(".back")
    zstn("unpack", told["output"], "-o", back, *bases, "--force", "--quiet")
    if back.read_bytes() != source.read_bytes():
        raise AssertionError(f"{source.name} is not restored")
    return told


def row(*cells):
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compatible", action="store_true", help="without --extended, as z4ai reads the files")
    options = parser.parse_args()
    more = [] if options.compatible else ["--extended"]
    originals = plains = packed = 0
    row("checkpoint", "original", "balanced, no base", "base found", "expected", "packed", "saved")
    row("---", "--:", "--:", "---", "--:", "--:", "--:")
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        family = folder / "family"
        family.mkdir()
        for name, make in members().items():
            source = folder / f"{name}.safetensors"
            source.write_bytes(make())
            plain, told = plain_size(source, folder), pack(source, family, more)
            original, size = told["original_bytes"], told["packed_bytes"]
            bases = [pathlib.Path(base).stem for base in told["bases"]]
            expected = (told.get("family") or {}).get("expected_bytes", "")
            row(name, original, plain, " ← ".join(bases) or "–", expected, size, f"{1 - size / original:.1%}")
            originals, plains, packed = originals + original, plains + plain, packed + size
            source.unlink()
    row("**all**", originals, plains, "", "", packed, f"**{1 - packed / originals:.1%}**")
    print(f"\nwithout bases {1 - plains / originals:.1%} saved; ZipLLM reports {ZIPLLM_SAVED:.0%} for a hub")


if __name__ == "__main__":
    main()
