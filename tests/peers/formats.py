"""Prints a Markdown table of what listing one model in several formats, and reading rows of it, take over HTTP.

    ZSTN_BIN=target/release/zstn PYTHON tests/peers/formats.py

PYTHON is the interpreter in `target/cache/peers`, which `cargo xtask setup` creates. Requests and bytes are those that
the server has answered, of the plain file and of the packed one. The rows are the first ten of the largest tensor.
"""

import contextlib
import http.server
import os
import re
import subprocess
import tempfile
import threading

import other_formats

ZSTN = os.environ["ZSTN_BIN"]
LARGEST = "embeddings.word_embeddings.weight"


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
    print("| file | list | of packed | ten rows | of packed |")
    print("|---|--:|--:|--:|--:|")
    with tempfile.TemporaryDirectory() as folder:
        for path in other_formats.all_files(folder, other_formats.FORMATS):
            packed = path.with_name("model.zstn" if path.suffix == ".safetensors" else f"{path.name}.zstn")
            zstn("pack", path, "-o", packed)
            tensor = LARGEST.replace(".", "/") if path.suffix in (".h5", ".msgpack") else LARGEST
            requests = zip(remote(path, tensor), remote(packed, tensor))
            print("|", " | ".join([path.name, *sum(requests, ())]), "|", flush=True)
            packed.unlink()


if __name__ == "__main__":
    main()
