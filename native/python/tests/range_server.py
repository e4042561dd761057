"""A web server that supports range requests and counts the bytes it sends."""

from __future__ import annotations

import http.server
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Handler(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    folder: Path
    sent = 0

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        content = (self.folder / self.path[1:].partition("?")[0]).read_bytes()
        found = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
        size, start, end = len(content), 0, len(content)
        if found:
            start = int(found[1]) if found[1] else size - int(found[2])
            end = min(int(found[2]) + 1, size) if found[1] and found[2] else size
        self.send_response(206 if found else 200)
        self.send_header("Content-Length", str(end - start))
        self.send_header("ETag", '"1"')
        if found:
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{size}")
        self.end_headers()
        # Counted before the client receives the bytes and can read the counter.
        type(self).sent += end - start
        self.wfile.write(content[start:end])


class Address(str):
    """The address of the server, with a counter of the bytes in responses."""

    handler: type[Handler]

    def sent(self) -> int:
        """Returns the number of bytes sent since the last call."""
        count, self.handler.sent = self.handler.sent, 0
        return count


@contextmanager
def serve(folder: Path, base: type[Handler] = Handler) -> Iterator[Address]:
    handler = type("OfFolder", (base,), {"folder": folder, "sent": 0})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        address = Address(f"http://127.0.0.1:{server.server_port}")
        address.handler = handler
        yield address
    finally:
        server.shutdown()
        server.server_close()
