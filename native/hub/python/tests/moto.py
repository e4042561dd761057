"""Runs moto, an S3 server, in its own process."""

from __future__ import annotations

import os
import socket
import subprocess
import time
import urllib.request
from pathlib import Path

_ROOT = Path(__file__).parents[4]


def program() -> Path:
    """Returns `$ZSTN_MOTO_SERVER`, or the program that `cargo xtask setup` has
    installed."""
    return Path(
        os.environ.get("ZSTN_MOTO_SERVER", _ROOT / "target/cache/moto/bin/moto_server")
    )


class Moto:
    """An S3 server with a bucket named ``models``."""

    def __init__(self) -> None:
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            port = found.getsockname()[1]
        self.endpoint = f"http://127.0.0.1:{port}"
        self._process = subprocess.Popen(
            [program(), "-H", "127.0.0.1", "-p", str(port)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 60
        while True:
            try:
                self.put("")
                return
            except OSError:
                assert self._process.poll() is None and time.monotonic() < deadline
                time.sleep(0.1)

    def put(self, path: str, body: bytes = b"") -> None:
        """Stores an object, or creates the bucket if the path is empty."""
        self._call("PUT", path, body)

    def get(self, path: str) -> bytes:
        return self._call("GET", path, None)

    def _call(self, method: str, path: str, body: bytes | None) -> bytes:
        url = f"{self.endpoint}/models/{path}".rstrip("/")
        # moto accepts any signature.
        signed = "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request"
        headers = {
            "Authorization": f"{signed}, SignedHeaders=host, Signature=0",
            "Content-Type": "application/octet-stream",
        }
        request = urllib.request.Request(url, body, headers, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.read()

    def variables(self) -> dict[str, str]:
        """Returns the environment variables with which programs access the server."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": "us-east-1",
        }

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()
