"""Packs thirty related checkpoints sequentially into one folder, each against the best base in the folder.

    ZSTN_BIN=target/release/zstn PYTHON tests/peers/family.py [--write]

PYTHON is the interpreter in `target/cache/peers`, which `cargo xtask setup` creates. Checkpoints arrive in the order
of `members`, as they would at a hub. Each is packed with `--base auto --family FOLDER --extended`, where FOLDER
contains the packed files and sketches of the earlier ones and no originals, so a base may need a base itself. For a
merge, the command gets the files that were merged, if `zstn pack --help` mentions merges. Each checkpoint is restored
and compared. If `tests/peers/trained.py` has saved training runs, they are among the checkpoints; otherwise synthetic
fine-tunes and adapters take their places.
"""

import argparse
import dataclasses
import functools
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import gguf
import xor_peer

import corpus
from corpus import merges, published, quantised, series, trained
from corpus.adapters import merged
from corpus.base_model import floats, rounded
from corpus.changes import relatives
from other_formats import write_gguf, write_pytorch

ZSTN = os.environ["ZSTN_BIN"]
PAGE = pathlib.Path(__file__).parents[2] / "docs/benchmarks.md"
HEADING = "\n### A family\n"
# The share that BitX and deduplication save on a whole hub, as reported in the ZipLLM paper.
ZIPLLM_SAVED = 0.54
WRONG_USAGE = 2
# Seeds of fine-tunes that differ from each other and from those with the default seed.
SEEDS = range(corpus.SEED + 1, corpus.SEED + 4)


@dataclasses.dataclass
class Member:
    """`write` gets the folder of all originals, which has those of earlier members, and returns the paths to pack.
    `sources` are the members that were merged."""

    kind: str
    write: Callable
    sources: tuple = ()


def one_file(name, make):
    """Returns a writer of one safetensors file."""

    def write(folder):
        path = folder / f"{name}.safetensors"
        path.write_bytes(make())
        return [path]

    return write


def in_shards(name, make, count=3):
    """Returns a writer of a sharded checkpoint."""

    def write(folder):
        header, data = corpus.split(make())
        tensors = [(key, t["dtype"], t["shape"], data[slice(*t["data_offsets"])]) for key, t in header.items()]
        place, shards = folder / name, {}
        place.mkdir()
        for shard in range(count):
            file = f"model-{shard + 1:05}-of-{count:05}.safetensors"
            part = tensors[shard * len(tensors) // count : (shard + 1) * len(tensors) // count]
            (place / file).write_bytes(corpus.checkpoint(part))
            shards |= {key: file for key, *_ in part}
        index = {"metadata": {"total_size": len(data)}, "weight_map": shards}
        (place / "model.safetensors.index.json").write_text(json.dumps(index, indent=2))
        return [place]

    return write


def with_optimizer(name, step):
    """Returns a writer of the weights and the optimizer of a training run after a step."""

    def write(folder):
        weights, moments = series.checkpoints()[step]
        optimizer = folder / f"{name}-optimizer.pt"
        write_pytorch(optimizer, moments)
        return [*one_file(name, lambda: weights)(folder), optimizer]

    return write


def as_gguf(name, kind):
    def write(folder):
        path = folder / f"{name}.gguf"
        write_gguf(path, floats(), gguf.GGMLQuantizationType[kind])
        return [path]

    return write


def the_twelve():
    """The model, full fine-tunes, adapters, quantised uploads, and two versions of another network."""
    real, runs = published.models(), trained.pairs()
    tuned = [
        ("trained-full120-bf16", "minilm-ft2-bf16"),
        ("trained-full240-bf16", "minilm-ft20-bf16"),
        ("trained-purebf16-bf16", "minilm-ftall-bf16"),
    ]
    yield "the model in BF16, F16 and F32", "minilm-bf16", functools.partial(rounded, "BF16")
    yield "published fine-tune, BF16 and F32", "sre-bf16", real["sre-bf16"]
    for name, instead in tuned:
        made = (name, runs[name][0]) if name in runs else (instead, corpus.differences()[instead][0])
        yield "other fine-tunes", *made
    for rank in (8, 16):
        name = f"trained-lora{rank}-bf16"
        made = functools.partial(merged, rank, "BF16")
        yield "merged adapters", *((name, runs[name][0]) if name in runs else (f"minilm-lora{rank}-bf16", made))
    for name in ("minilm-int4g128-bf16", "minilm-nf4g64-bf16", "minilm-fp8b128-bf16"):
        yield "quantised, stored as BF16", name, quantised.MORE[name]
    for name in ("captcha0.10.0-f32", "captcha1.0.0-f32"):
        yield "two releases of another network", name, real[name]


def of_merges(a, b):
    """Name -> (function of folder contents, sources): merges of the fine-tunes `a` and `b` of minilm."""
    wise = ("minilm-f32", "sre-f32")
    return {
        "merge-linear-f32": (lambda base, tuned: merges.linear(base, tuned, 0.5, "F32"), wise),
        "merge-linear-bf16": (lambda a, b: merges.linear(a, b, 0.4, "BF16"), (a, b)),
        "merge-linear-in-bf16": (lambda a, b: merges.linear_in_bf16(a, b, 0.5), (a, b)),
        "merge-spherical-bf16": (lambda a, b: merges.spherical(a, b, 0.5, "BF16"), (a, b)),
        "merge-tasks-bf16": (
            lambda base, a, b: merges.task_arithmetic(base, a, b, (0.7, 0.5), "BF16"),
            ("minilm-bf16", a, b),
        ),
    }


def members():
    """Name -> Member, in order of arrival."""
    found = {name: Member(kind, one_file(name, make)) for kind, name, make in the_twelve()}
    model, tuned = (list(dict.fromkeys(member.kind for member in found.values()))[i] for i in (0, 1))
    b = [name for name, member in found.items() if member.kind == "other fine-tunes"][-1]

    def add(kind, name, make):
        found[name] = Member(kind, one_file(name, make))

    for dtype in ("F32", "F16"):
        add(model, f"minilm-{dtype.lower()}", functools.partial(rounded, dtype))
    add(tuned, "sre-f32", published.models()["sre-f32"])
    # The names of `corpus.relatives` do not state the number of rows.
    add("grown vocabularies", "minilm-grown64-bf16", relatives(SEEDS[0], 64)["minilm-grown-bf16"])
    add("other names or shards", "minilm-renamed-bf16", relatives(SEEDS[1])["minilm-renamed-bf16"])
    sharded = lambda: corpus.fine_tunes(SEEDS[2])["minilm-ft20-bf16"]
    found["minilm-shards-bf16"] = Member("other names or shards", in_shards("minilm-shards-bf16", sharded))
    for name, (merge, sources) in of_merges("sre-bf16", b).items():

        def write(folder, name=name, merge=merge, sources=sources):
            files = [(folder / f"{source}.safetensors").read_bytes() for source in sources]
            return one_file(name, lambda: merge(*files))(folder)

        found[name] = Member("merges", write, sources)
    for step in series.STEPS:
        found[f"series-{step}-f32"] = Member("training series with Adam", with_optimizer(f"series-{step}-f32", step))
    add("moving average of the series", "series-average-f32", lambda: series.checkpoints()["average"])
    add("grown vocabularies", "series-grown8-f32", lambda: series.checkpoints()["grown"])
    for name, kind in (("minilm-bf16", "BF16"), ("minilm-f16", "F16")):
        found[f"{name}-gguf"] = Member("GGUF of the same weights", as_gguf(f"{name}-gguf", kind))
    return found


def zstn(*arguments):
    return subprocess.run([ZSTN, *map(str, arguments)], check=True, capture_output=True, text=True).stdout


def files(path):
    return sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]


def length(paths):
    return sum(file.stat().st_size for path in paths for file in files(path))


def target(source, folder):
    """The option for the output: packed checkpoints in several files are folders."""
    return f"{folder}/{source.name}-zstn/" if source.is_dir() else f"{folder}/"


def plain_size(source):
    """The size of the packed file without a base and without extensions."""
    with tempfile.TemporaryDirectory() as folder:
        zstn("pack", source, "-o", target(source, folder), "--quiet")
        return length([pathlib.Path(folder)])


def pack(source, family, sources, options):
    """Packs against the sources or the best member of the family, checks that the original is restored, and returns
    the packed size and the bases."""
    # A family without members cannot be searched.
    auto = ["--base", "auto", "--family", family] if any(family.iterdir()) else []
    given = [part for path in sources for part in ("--base", path)]
    command = ["pack", source, "-o", target(source, family), *options, "--json"]
    try:
        told = json.loads(zstn(*command, *(given or auto)))
    except subprocess.CalledProcessError as error:
        if not given or error.returncode != WRONG_USAGE:
            sys.exit(f"{source.name}: {error.stderr}")
        given, told = [], json.loads(zstn(*command, *auto))
    bases = [part for base in told["bases"] for part in ("--base", base)]
    packed = pathlib.Path(told["output"])
    # Sketches make deltas available as bases, unless a delta needs several originals.
    if not given:
        zstn("sketch", packed, *bases, "--quiet")
    with tempfile.TemporaryDirectory(dir=family.parent) as folder:
        back = pathlib.Path(folder) / source.name
        zstn("unpack", packed, "-o", f"{back}/" if source.is_dir() else back, *bases, "--quiet")
        pairs = zip(files(source), files(back), strict=True)
        if any(one.name != other.name or one.read_bytes() != other.read_bytes() for one, other in pairs):
            raise AssertionError(f"{source.name} is not restored")
    return length([packed]), [pathlib.Path(base).stem for base in told["bases"]]


HEADS = ["checkpoints", "count", "MB", "zstn, MB", "saved", "no bases", "XOR, zstd −3", "zstd −3"]


def table(rows):
    """Markdown of (kind, sizes): the original, zstn, zstn without bases, XOR and zstd."""
    lines = [f"| {' | '.join(HEADS)} |", "|---|" + "--:|" * (len(HEADS) - 1)]
    kinds = list(dict.fromkeys(kind for kind, _ in rows))
    for title, chosen in [*((kind, [kind]) for kind in kinds), ("**all**", kinds)]:
        of_kind = [sizes for kind, sizes in rows if kind in chosen]
        original, packed, *others = map(sum, zip(*of_kind, strict=True))
        mark = "**" if len(chosen) > 1 else ""
        saved = [f"{mark}{1 - size / original:.1%}{mark}".replace("%", " %") for size in (packed, *others)]
        cells = [title, str(len(of_kind)), f"{original / 1e6:.1f}", f"{packed / 1e6:.1f}", *saved]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def write(text):
    """Replaces the table in docs/benchmarks.md."""
    page = PAGE.read_text("utf-8")
    start = page.index("\n| ", page.index(HEADING)) + 1
    end = page.index("\n\n", start)
    PAGE.write_text(page[:start] + text + page[end:], "utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compatible", action="store_true", help="without --extended, as z4ai reads the files")
    sources = {"action": argparse.BooleanOptionalAction, "default": True}
    parser.add_argument("--sources", help="pass the files that were merged, if the command accepts them", **sources)
    parser.add_argument("--write", action="store_true", help="replace the table in docs/benchmarks.md")
    parser.add_argument("--only", nargs="*", help="checkpoints to measure; they need those that they were merged from")
    options = parser.parse_args()
    more = [] if options.compatible else ["--extended"]
    with_sources = options.sources and not options.compatible and "merge" in zstn("pack", "--help")
    rows, hub = [], xor_peer.Hub()
    with tempfile.TemporaryDirectory() as folder:
        family, originals = (pathlib.Path(folder) / name for name in ("family", "originals"))
        family.mkdir()
        originals.mkdir()
        for name, member in members().items():
            if options.only and name not in options.only:
                continue
            started = time.monotonic()
            inputs = member.write(originals)
            sources = [originals / f"{source}.safetensors" for source in member.sources if with_sources]
            packed = [pack(path, family, sources, more) for path in inputs]
            parts = [file for path in inputs for file in files(path)]
            sizes = length(inputs), sum(size for size, _ in packed), sum(map(plain_size, inputs))
            sizes = *sizes, hub.add(parts), sum(xor_peer.coded(file.read_bytes()) for file in parts)
            rows.append((member.kind, sizes))
            bases = ", ".join(" ← ".join(bases) or "–" for _, bases in packed)
            print(f"{name}: {' '.join(map(str, sizes))}; {bases}; {time.monotonic() - started:.0f} s", flush=True)
    print("", text := table(rows), f"\nZipLLM reports {ZIPLLM_SAVED:.0%} for a hub", sep="\n")
    if options.write:
        write(text)


if __name__ == "__main__":
    main()
