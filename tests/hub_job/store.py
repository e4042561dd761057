"""An S3 store for the tests: moto behind a proxy that counts the bytes read and can
refuse requests for some time."""

from __future__ import annotations

import http.client
import os
import socket
import subprocess
import threading
import time
import urllib.request
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any
from xml.etree import ElementTree

_START_SECONDS = 120

#: moto does not verify signatures, but rejects anonymous requests to replace an object.
_OWNER = (
    "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request, "
    "SignedHeaders=host, Signature=0"
)


class Store:
    """A running store, whose clients send their requests through the proxy."""

    def __init__(self, folder: Path) -> None:
        self._port = _free_port()
        program = os.environ.get("ZSTN_MOTO_SERVER", "moto_server")
        with (folder / "moto.log").open("wb") as log:
            self._moto = subprocess.Popen(
                [program, "-H", "127.0.0.1", "-p", str(self._port)],
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self._wait()
        self._proxy = _Proxy(("127.0.0.1", 0), _Handler)
        self._proxy.moto_port = self._port
        threading.Thread(target=self._proxy.serve_forever, daemon=True).start()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._proxy.shutdown()
        self._moto.kill()
        self._moto.wait()

    def environment(self) -> dict[str, str]:
        """The environment variables that direct clients to the store."""
        return {
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "the-secret-key",
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self._proxy.server_address[1]}",
            "AWS_ALLOW_HTTP": "true",
        }

    def refuse_for(self, seconds: float) -> None:
        """Answers every request with 503 for this duration."""
        self._proxy.refuse_until = time.monotonic() + seconds

    @property
    def refused(self) -> int:
        """The number of requests that were answered with 503."""
        return self._proxy.counts["refused"]

    def read_bytes(self, bucket: str) -> int:
        """The number of object bytes that clients have read from a bucket."""
        return self._proxy.counts[f"GET {bucket} bytes"]

    def requests(self) -> dict[str, int]:
        """The number of requests by method."""
        return {name: count for name, count in self._proxy.counts.items() if " " not in name}

    def entries(self, bucket: str) -> int:
        """The number of entries for finished work that were written."""
        return self._proxy.counts[f"done in {bucket}"]

    # The following methods bypass the proxy.

    def make_bucket(self, bucket: str) -> None:
        self._request("PUT", f"/{bucket}")

    def put(self, path: str, content: bytes) -> None:
        self._request("PUT", f"/{path}", content)

    def get(self, path: str) -> bytes:
        return self._request("GET", f"/{path}")

    def list(self, bucket: str, prefix: str = "") -> list[str]:
        names: list[str] = []
        token = ""
        while True:
            query = f"?list-type=2&prefix={prefix}" + (f"&continuation-token={token}" if token else "")
            tree = ElementTree.fromstring(self._request("GET", f"/{bucket}{query}"))
            space = {"s3": tree.tag[1:].partition("}")[0]}
            names += [
                entry.findtext("s3:Key", "", space) for entry in tree.findall("s3:Contents", space)
            ]
            token = tree.findtext("s3:NextContinuationToken", "", space)
            if not token:
                return names

    def _request(self, method: str, path: str, content: bytes | None = None) -> bytes:
        url = f"http://127.0.0.1:{self._port}{path}"
        # The default type is a form, which moto would parse instead of storing it.
        headers = {"Content-Type": "application/octet-stream", "Authorization": _OWNER}
        request = urllib.request.Request(url, content, headers, method=method)
        with urllib.request.urlopen(request, timeout=_START_SECONDS) as answer:
            body: bytes = answer.read()
            return body

    def _wait(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while True:
            try:
                socket.create_connection(("127.0.0.1", self._port)).close()
                return
            except OSError:
                assert self._moto.poll() is None and time.monotonic() < deadline, "moto does not start"
                time.sleep(0.05)


class _Proxy(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.moto_port = 0
        self.refuse_until = 0.0
        self.lock = threading.Lock()
        self.counts: Counter[str] = Counter()

    def count(self, name: str, amount: int = 1) -> None:
        with self.lock:
            self.counts[name] += amount

    def handle_error(self, *_: Any) -> None:
        # A killed client closes its connection, which is not an error.
        pass


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Proxy

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._moto = http.client.HTTPConnection("127.0.0.1", self.server.moto_port, timeout=60)

    def finish(self) -> None:
        self._moto.close()
        super().finish()

    def _forward(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.count(self.command)
        if time.monotonic() < self.server.refuse_until:
            self.server.count("refused")
            self._answer(503, [("Content-Type", "application/xml")], b"<Error><Code>SlowDown</Code></Error>")
            return
        headers = {name: value for name, value in self.headers.items() if name.lower() != "connection"}
        try:
            self._moto.request(self.command, self.path, body, headers)
            answer = self._moto.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException):
            # moto may have closed the connection in the meantime.
            self._moto.close()
            self._moto.request(self.command, self.path, body, headers)
            answer = self._moto.getresponse()
            content = answer.read()
        self._count(answer.status, len(content))
        self._answer(answer.status, answer.getheaders(), content)

    def _count(self, status: int, length: int) -> None:
        bucket, _, name = self.path.partition("?")[0].lstrip("/").partition("/")
        if self.command == "GET" and name and status < 300:
            self.server.count(f"GET {bucket} bytes", length)
        if self.command == "PUT" and "done/" in name and status < 300:
            self.server.count(f"done in {bucket}")

    def _answer(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                self.send_header(name, value)
        length = next((value for name, value in headers if name.lower() == "content-length"), None)
        # An answer to HEAD states the length of the omitted body.
        is_head = self.command == "HEAD"
        self.send_header("Content-Length", length if is_head and length else str(len(content)))
        self.end_headers()
        if not is_head:
            self.wfile.write(content)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _forward  # noqa: N815

    def log_message(self, *_: Any) -> None:
        pass


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
