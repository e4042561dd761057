"""Runs the model hub of `tests/rust/support/stub_hub` in its own process."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

_ROOT = Path(__file__).parents[3]


def program() -> Path:
    """Returns `$ZSTN_STUB_HUB`, or builds the program and returns its path."""
    if "ZSTN_STUB_HUB" in os.environ:
        return Path(os.environ["ZSTN_STUB_HUB"])
    build = ["cargo", "build", "--quiet", "-p", "zstn-tests", "--bin", "stub-hub"]
    subprocess.run(build, cwd=_ROOT, check=True)
    target = Path(os.environ.get("CARGO_TARGET_DIR", _ROOT / "target"))
    return target / "debug" / ("stub-hub.exe" if sys.platform == "win32" else "stub-hub")


class StubHub:
    """A hub on this machine. It accepts the token `hf_secret`, which may do everything,
    and `hf_reader`, which may read all repositories that are not gated."""

    def __init__(self, *options: str) -> None:
        tokens = ["--token", "hf_secret", "--read-token", "hf_reader"]
        command = [program(), "--until-eof", *tokens, *options]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout
        self.endpoint = self._process.stdout.readline().strip()

    def close(self) -> None:
        self._process.communicate()

    def add(
        self,
        name: str,
        files: Mapping[str, bytes] | Path,
        *,
        private: bool = False,
        repo_type: str = "model",
        branch: str = "main",
    ) -> str:
        """Commits exactly the files of a dictionary or a folder."""
        if isinstance(files, Path):
            paths = (path for path in files.rglob("*") if path.is_file())
            files = {path.relative_to(files).as_posix(): path.read_bytes() for path in paths}
        contents = {path: base64.b64encode(data).decode() for path, data in files.items()}
        answer = self._control(
            "POST", "commits", kind=repo_type, repository=name, branch=branch,
            private=private, files=contents,
        )  # fmt: skip
        return answer["commit"]

    def clear(self) -> None:
        """Removes all repositories."""
        self._control("DELETE", "repositories")

    def inject(self, **fault: Any) -> None:
        """Adds a fault with the fields of `Fault` in
        `tests/rust/support/stub_hub/fault.rs`."""
        self._control("POST", "faults", **fault)

    def heal(self) -> None:
        self._control("DELETE", "faults")

    def clear_log(self) -> None:
        self._control("DELETE", "log")

    @property
    def log(self) -> list[dict[str, Any]]:
        """All requests, in the format of `LoggedRequest` in
        `tests/rust/support/stub_hub/fault.rs`."""
        return self._control("GET", "log")

    @property
    def requests(self) -> list[tuple[str, str, dict[str, str]]]:
        """Method, path and headers of every request."""
        return [(one["method"], one["path"], dict(one["headers"])) for one in self.log]

    def fetched(self, name: str) -> set[str]:
        """Returns the files of a repository that have been requested."""
        pattern = re.compile(rf"(?:/datasets)?/{re.escape(name)}/resolve/[^/]+/(.+)")
        matches = (pattern.fullmatch(path) for _, path, _ in self.requests)
        return {match[1] for match in matches if match}

    def _control(self, method: str, what: str, /, **body: Any) -> Any:
        data = json.dumps(body).encode() if body else None
        request = Request(f"{self.endpoint}/_stub/{what}", data, method=method)
        with urlopen(request) as answer:
            return json.load(answer)
