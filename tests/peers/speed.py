"""Compares the speed of packing and unpacking in memory with peers, in interleaved rounds.

    ZSTN_BIN=target/release/zstn PYTHON tests/peers/speed.py minilm-bf16 minilm-f32 --threads 1

PYTHON is the interpreter in `target/cache/peers`, which `cargo xtask setup` creates. OpenZL and ZipNN are included if
they are installed, either by `cargo xtask sizes silero6.2.3-f32` or by pip with tests/peers/requirements-figures.txt.
The script prints medians in MB/s of original bytes, and medians of the rounds' ratios to the contestant `--against`,
which are more reliable than speeds: above 1, that contestant is faster. docs/benchmarks.md describes what each time
includes.
"""

import argparse
import functools
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

import openzl_peer
import zipnn_peer
from z4ai import safetensors as z4ai_safetensors

import corpus

OURS = "zstn balanced"


def clocked(call, *arguments):
    started = time.perf_counter()
    result = call(*arguments)
    return result, time.perf_counter() - started


def by_tensor(original, takes, coder_of):
    """Times `compress` and `decompress` of each tensor's dtype; the header and names are not included."""
    header, data = corpus.split(original)
    size = pack = unpack = 0
    for tensor in header.values():
        raw = data[slice(*tensor["data_offsets"])]
        if not takes(tensor["dtype"], raw):
            size += len(raw)
            continue
        compress, decompress = coder_of(tensor["dtype"])
        # ZipNN modifies its input, so each call gets a copy, which is not timed.
        coded, seconds = clocked(compress, bytearray(raw))
        pack += seconds
        back, seconds = clocked(decompress, coded)
        unpack += seconds
        assert bytes(back) == raw
        size += len(coded)
    return size, pack, unpack


def by_zipnn(coder, original, threads):
    def coders(dtype):
        return [getattr(zipnn_peer.make(coder, dtype, threads), verb) for verb in ("compress", "decompress")]

    return by_tensor(original, zipnn_peer.takes, coders)


def by_openzl(ext, graph, original):
    coders = {dtype: openzl_peer.Coder(ext, dtype, graph) for dtype in ("BF16", "F16", "F32")}
    takes = lambda dtype, raw: dtype in coders and len(raw) > 0
    return by_tensor(original, takes, lambda dtype: (coders[dtype].compress, coders[dtype].decompress))


def by_z4ai(original):
    packed, pack = clocked(z4ai_safetensors.compress_bytes, original)
    restored, unpack = clocked(z4ai_safetensors.decompress_bytes, packed)
    assert restored == original
    return len(packed), pack, unpack


def by_zstn(path, threads, effort, *more):
    # The peers run in this process, whose memory the machine has backed already. A new process gets three runs for that.
    options = ["--effort", effort, "--threads", str(threads), "--runs", "3", "--fresh-buffers", "--json", *more]
    command = [os.environ["ZSTN_BIN"], "bench", str(path), *options]
    told = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return told["packed_bytes"], told["pack_seconds"], told["unpack_seconds"]


def contestants(path, original, threads):
    """Name -> function that returns (bytes, seconds to pack, seconds to unpack)."""
    found = {}
    for effort in ("balanced", "fast"):
        found[f"zstn {effort}"] = functools.partial(by_zstn, path, threads, effort)
        found[f"zstn {effort}, no digests"] = functools.partial(by_zstn, path, threads, effort, "--no-integrity")
    if (ext := openzl_peer.load()) and threads == 1:
        for graph in ("deconstruct+huffman", "deconstruct+fse"):
            found[f"OpenZL {graph}"] = functools.partial(by_openzl, ext, graph, original)
    if coder := zipnn_peer.load():
        found["ZipNN"] = functools.partial(by_zipnn, coder, original, threads)
    if threads == os.cpu_count():
        found["z4ai"] = functools.partial(by_z4ai, original)
    return found


def measure(who, rounds):
    """Name -> list of the results of each round, after one round that does not count."""
    for call in who.values():
        call()
    found = {name: [] for name in who}
    for _ in range(rounds):
        for name, call in who.items():
            found[name].append(call())
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="checkpoints to measure; all if none is named")
    parser.add_argument("--against", default=OURS, help=f"contestant that ratios are to; {OURS!r} by default")
    parser.add_argument("--only", action="append", help="contestants with this in their name, may be repeated")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--threads",
        type=int,
        default=os.cpu_count(),
        help="OpenZL, which has one, is left out of more, and z4ai, which takes all, of fewer",
    )
    options = parser.parse_args()
    print("| checkpoint | who | bytes | pack, MB/s | unpack, MB/s | bytes, reference by it | pack, × | unpack, × |")
    print("|---|---|--:|--:|--:|--:|--:|--:|")
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "m.safetensors"
        models = corpus.models()
        for name in options.names or corpus.variants():
            original = models[name]()
            path.write_bytes(original)
            who = contestants(path, original, options.threads)
            if options.only:
                wanted = [options.against, *options.only]
                who = {key: call for key, call in who.items() if any(part in key for part in wanted)}
            rounds = measure(who, options.rounds)
            reference = rounds[options.against]
            for peer, found in rounds.items():
                speeds = [len(original) / 1e6 / statistics.median(round[k] for round in found) for k in (1, 2)]
                cells = [name, peer, str(found[0][0]), *(f"{speed:.0f}" for speed in speeds)]
                pairs = list(zip(found, reference, strict=True))
                cells.append(f"{reference[0][0] / found[0][0]:.4f}")
                cells += [f"{statistics.median(a[k] / b[k] for a, b in pairs):.2f}" for k in (1, 2)]
                print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
