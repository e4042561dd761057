"""A model hub with the requests that huggingface_hub makes to download."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

#: Files that a hub keeps apart and redirects to.
_LARGE = (".zstn", ".safetensors", ".bin", ".z4dm")


@dataclass
class Repository:
    """The files of every commit, and the commit of every branch."""

    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)
    token: str | None = None

    def commit(self, files: dict[str, bytes], branch: str = "main") -> str:
        state = f"{len(self.commits)} {sorted(files)}"
        sha = hashlib.sha1(state.encode()).hexdigest()
        self.commits[sha] = files
        self.branches[branch] = sha
        return sha

    def find(self, revision: str) -> str | None:
        sha = self.branches.get(revision, revision)
        return sha if sha in self.commits else None


class StubHub:
    """A server on this machine. `requests` has method, path and headers of
    every request."""

    def __init__(self) -> None:
        self.repositories: dict[str, Repository] = {}
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self._blobs: dict[str, bytes] = {}
        #: Requests about repositories that are answered 503 before others work.
        self.failing_infos = 0
        hub = self

        class Handler(_Handler):
            state = hub

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def add(
        self, name: str, files: dict[str, bytes] | Path, *, token: str | None = None
    ) -> Repository:
        """Makes a repository, of a dictionary or a folder."""
        if isinstance(files, Path):
            paths = (path for path in files.rglob("*") if path.is_file())
            files = {path.relative_to(files).as_posix(): path.read_bytes() for path in paths}
        repository = Repository(token=token)
        repository.commit(files)
        self.repositories[name] = repository
        return repository

    def fetched(self, name: str) -> set[str]:
        """Returns the files of a repository that have been asked for."""
        pattern = re.compile(rf"(?:/datasets)?/{re.escape(name)}/resolve/[^/]+/(.+)")
        matches = (pattern.fullmatch(unquote(path)) for _, path, _ in self.requests)
        return {match[1] for match in matches if match}

    def blob(self, data: bytes) -> str:
        digest = hashlib.sha256(data).hexdigest()
        self._blobs[digest] = data
        return digest

    def blob_of(self, digest: str) -> bytes | None:
        return self._blobs.get(digest)


class _Handler(BaseHTTPRequestHandler):
    state: StubHub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self._answer()

    def _answer(self) -> None:
        path = unquote(urlsplit(self.path).path)
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.state.requests.append((self.command, path, headers))
        for pattern, handle in (
            (r"/api/(?:models|datasets)/([^/]+/[^/]+)/tree/([^/]+)/?.*", self._tree),
            (r"/api/(?:models|datasets)/([^/]+/[^/]+)(?:/revision/([^/]+))?", self._info),
            (r"(?:/datasets)?/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", self._resolve),
            (r"/blobs/([0-9a-f]{64})", self._blob),
        ):
            match = re.fullmatch(pattern, path)
            if match:
                handle(*match.groups())
                return
        self._refuse(404, "EntryNotFound")

    def _repository(self, name: str, revision: str | None) -> tuple[Repository, str] | None:
        repository = self.state.repositories.get(name)
        if repository is None:
            self._refuse(404, "RepoNotFound")
            return None
        if repository.token and self.headers.get("Authorization") != f"Bearer {repository.token}":
            # A private repository is not there for others.
            self._refuse(401, "RepoNotFound")
            return None
        sha = repository.find(revision or "main")
        if sha is None:
            self._refuse(404, "RevisionNotFound")
            return None
        return repository, sha

    def _info(self, name: str, revision: str | None) -> None:
        if self.state.failing_infos > 0:
            self.state.failing_infos -= 1
            self._refuse(503, "Unavailable")
            return
        found = self._repository(name, revision)
        if found:
            repository, sha = found
            siblings = [{"rfilename": path} for path in repository.commits[sha]]
            self._json({"id": name, "sha": sha, "private": False, "siblings": siblings, "tags": []})

    def _tree(self, name: str, revision: str) -> None:
        found = self._repository(name, revision)
        if not found:
            return
        repository, sha = found
        entries = []
        for path, data in repository.commits[sha].items():
            entry: dict[str, Any] = {
                "type": "file", "path": path, "size": len(data), "oid": _git_id(data)
            }  # fmt: skip
            if path.endswith(_LARGE):
                digest = hashlib.sha256(data).hexdigest()
                entry["lfs"] = {"oid": digest, "size": len(data), "pointerSize": 134}
            entries.append(entry)
        self._json(entries)

    def _resolve(self, name: str, revision: str, path: str) -> None:
        found = self._repository(name, revision)
        if not found:
            return
        repository, sha = found
        data = repository.commits[sha].get(path)
        if data is None:
            self._refuse(404, "EntryNotFound", {"X-Repo-Commit": sha})
        elif path.endswith(_LARGE):
            digest = self.state.blob(data)
            # Another origin: a redirect within one would be followed by HEAD.
            self._send(302, b"", {
                "Location": f"http://localhost:{self.state.port}/blobs/{digest}",
                "X-Repo-Commit": sha,
                "X-Linked-Etag": f'"{digest}"',
                "X-Linked-Size": str(len(data)),
            })  # fmt: skip
        else:
            self._send(200, data, {"X-Repo-Commit": sha, "ETag": f'"{_git_id(data)}"'})

    def _blob(self, digest: str) -> None:
        data = self.state.blob_of(digest)
        if data is None:
            self._refuse(404, "EntryNotFound")
            return
        headers = {"ETag": f'"{digest}"', "Accept-Ranges": "bytes"}
        match = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if not match:
            self._send(200, data, headers)
            return
        start = int(match[1])
        end = min(int(match[2]) + 1 if match[2] else len(data), len(data))
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{len(data)}"
        self._send(206, data[start:end], headers)

    def _json(self, value: Any) -> None:
        self._send(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _refuse(self, status: int, code: str, headers: dict[str, str] | None = None) -> None:
        self._send(status, code.encode(), {"X-Error-Code": code, **(headers or {})})

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _git_id(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
