"""Commits to a repository on the hub."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ._repository import Hub, Place
from ._upload import Uploaded

ATTRIBUTES = ".gitattributes"
_ATTRIBUTE = "*.zstn filter=lfs diff=lfs merge=lfs -text\n"


class Moved(Exception):
    """The branch has moved since the expected commit. Nothing was committed."""


@dataclass
class Commit:
    """Changes to a repository whose files are `known`. A change that would have no
    effect is omitted."""

    known: dict[str, Any]
    """Files by path, in the form in which huggingface_hub describes them."""
    _lines: list[dict[str, Any]] = field(default_factory=list)

    def add(self, path: str, content: bytes) -> None:
        """Adds a small file."""
        known = self.known.get(path)
        header = b"blob %d\0" % len(content)
        if known is not None and known.blob_id == hashlib.sha1(header + content).hexdigest():
            return
        encoded = base64.b64encode(content).decode()
        self._line("file", path=path, content=encoded, encoding="base64")

    def add_large(self, path: str, file: Uploaded) -> None:
        """Adds a file that has been uploaded."""
        known = self.known.get(path)
        if known is not None and known.lfs is not None and known.lfs.sha256 == file.sha256:
            return
        self._line("lfsFile", path=path, algo="sha256", oid=file.sha256, size=file.size)

    def delete(self, path: str) -> None:
        """Deletes a file if it exists."""
        if path in self.known:
            self._line("deletedFile", path=path)

    def _line(self, key: str, **value: Any) -> None:
        self._lines.append({"key": key, "value": value})

    @property
    def is_empty(self) -> bool:
        return not self._lines

    def send(
        self, hub: Hub, place: Place, parent: str, message: str, create_pr: bool
    ) -> dict[str, Any]:
        """Sends all changes as one commit.

        Raises:
            Moved: if `parent` is not the branch's last commit.
        """
        header = {"summary": message, "description": "", "parentCommit": parent}

        def lines() -> Iterator[bytes]:
            for line in [{"key": "header", "value": header}, *self._lines]:
                yield json.dumps(line).encode() + b"\n"

        from huggingface_hub import errors

        try:
            answer = hub.request(
                "POST",
                hub.address(place, "commit"),
                headers={"Content-Type": "application/x-ndjson"},
                content=b"".join(lines()),
                params={"create_pr": "1"} if create_pr else None,
            )
        except errors.HfHubHTTPError as error:
            if error.response.status_code == 412:
                raise Moved from error
            raise
        found: dict[str, Any] = answer.json()
        return found


def attributes(hub: Hub, place: Place, commit: Commit, parent: str) -> bytes:
    """Returns the ``.gitattributes`` of a repository, with a line for packed files
    added if it has none."""
    text = b""
    if ATTRIBUTES in commit.known:
        url = f"{hub.endpoint}/{place}/resolve/{parent}/{ATTRIBUTES}"
        text = hub.request("GET", url, follow_redirects=True).content
    for line in text.decode(errors="replace").splitlines():
        pattern, _, rest = line.partition(" ")
        if pattern == "*.zstn" and "filter=lfs" in rest:
            return text
    if text and not text.endswith(b"\n"):
        text += b"\n"
    return text + _ATTRIBUTE.encode()
