"""Runs `zstn gateway` in its own process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).parents[3]


def program() -> Path:
    """Returns `$ZSTN_BIN`, or builds the command line program and returns its path."""
    if "ZSTN_BIN" in os.environ:
        return Path(os.environ["ZSTN_BIN"])
    subprocess.run(["cargo", "build", "--quiet", "-p", "zstn-cli"], cwd=_ROOT, check=True)
    target = Path(os.environ.get("CARGO_TARGET_DIR", _ROOT / "target"))
    return target / "debug" / ("zstn.exe" if sys.platform == "win32" else "zstn")


class Gateway:
    """A gateway that checks every request with the upstream hub, unless options change
    that."""

    def __init__(self, upstream: str | Path, *options: str | Path) -> None:
        chosen = options or ("--recheck", "0")
        arguments = ["--upstream", upstream, "--port", "0", "--json", *chosen]
        self._process = subprocess.Popen(
            [program(), "gateway", *arguments], stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout
        self.endpoint = json.loads(self._process.stdout.readline())["url"].rstrip("/")

    def close(self) -> list[dict[str, object]]:
        """Stops the gateway, and returns the log of its requests."""
        self._process.terminate()
        output, _ = self._process.communicate()
        assert self._process.returncode == 0
        return [json.loads(line) for line in output.splitlines()]
