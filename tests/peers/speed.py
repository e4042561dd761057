"""Speed of packing and unpacking in memory beside peers, in interleaved rounds.

    ZSTN_BIN=target/release/zstn PYTHON tests/peers/speed.py minilm-bf16 minilm-f32

PYTHON is that of `target/cache/peers`, which `cargo xtask setup` makes. ZipNN is compared where it is installed
(`pip install --no-deps zipnn==0.5.4`; the calls made here do without PyTorch, for which a stand-in is enough).
Printed are medians in MB/s of original bytes, and medians of the rounds' ratios, which say more than speeds do.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

import corpus
import zipnn_peer
from z4ai import safetensors as z4ai_safetensors

def clocked(call, *arguments):
    started = time.perf_counter()
    result = call(*arguments)
    return result, time.perf_counter() - started


def by_zipnn(coder, original, threads):
    """Tensor by tensor, as its own tools do; header and names are not counted."""
    header, data = corpus.split(original)
    size = pack = unpack = 0
    for tensor in header.values():
        begin, end = tensor["data_offsets"]
        raw = data[begin:end]
        if not zipnn_peer.takes(tensor["dtype"], raw):
            size += len(raw)
            continue

        def make(dtype=tensor["dtype"]):
            return zipnn_peer.make(coder, dtype, threads)

        # It changes its buffer, so it gets a copy, which is not timed.
        coded, seconds = clocked(make().compress, bytearray(raw))
        pack += seconds
        back, seconds = clocked(make().decompress, coded)
        unpack += seconds
        assert bytes(back) == raw
        size += len(coded)
    return size, pack, unpack


def by_z4ai(original):
    packed, pack = clocked(z4ai_safetensors.compress_bytes, original)
    restored, unpack = clocked(z4ai_safetensors.decompress_bytes, packed)
    assert restored == original
    return len(packed), pack, unpack


def by_zstn(path, effort, threads, integrity):
    options = ["--effort", effort, "--threads", str(threads), "--runs", "1", "--json"]
    options += [] if integrity else ["--no-integrity"]
    command = [os.environ["ZSTN_BIN"], "bench", str(path), *options]
    told = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return told["packed_bytes"], told["pack_seconds"], told["unpack_seconds"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="checkpoints to measure; all if none is named")
    parser.add_argument("--no-integrity", action="store_true", help="without digests, as the peers are")
    parser.add_argument("--effort", default="balanced", choices=("fast", "balanced", "max"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    options = parser.parse_args()
    coder = zipnn_peer.load()
    print("| checkpoint | who | bytes | pack, MB/s | unpack, MB/s | size, ours by theirs | pack, × | unpack, × |")
    print("|---|---|--:|--:|--:|--:|--:|--:|")
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "m.safetensors"
        for name in options.names or corpus.variants():
            original = corpus.variants()[name]()
            path.write_bytes(original)
            who = {"zstn": lambda: by_zstn(path, options.effort, options.threads, not options.no_integrity)}
            if coder:
                who["ZipNN"] = lambda: by_zipnn(coder, original, options.threads)
            who["z4ai"] = lambda: by_z4ai(original)
            rounds = {peer: [] for peer in who}
            for call in who.values():
                call()
            for _ in range(options.rounds):
                for peer, call in who.items():
                    rounds[peer].append(call())
            for peer, found in rounds.items():
                speeds = [len(original) / 1e6 / statistics.median(round[k] for round in found) for k in (1, 2)]
                cells = [name, peer, str(found[0][0]), *(f"{speed:.0f}" for speed in speeds)]
                if peer == "zstn":
                    cells += ["", "", ""]
                else:
                    pairs = list(zip(found, rounds["zstn"], strict=True))
                    cells.append(f"{rounds['zstn'][0][0] / found[0][0]:.4f}")
                    cells += [f"{statistics.median(a[k] / b[k] for a, b in pairs):.2f}" for k in (1, 2)]
                print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
