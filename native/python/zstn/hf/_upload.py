"""Uploads: with Xet while a file is packed, or with LFS from a temporary file."""

from __future__ import annotations

import base64
import os
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from ._repository import Hub, Place

#: Number of bytes from the start of a file that a hub needs to choose the upload mode.
SAMPLE_BYTES = 512

#: Settings of hf_xet. They record the upload state on disk every few seconds (20 by
#: default) and after every 64 MB, so that the next push continues if this one is
#: killed.
_RESUMABLE = {
    "data.session_xorb_metadata_flush_interval": "2s",
    "data.session_xorb_metadata_flush_max_count": 1,
}

#: Maximum number of files in a request for upload modes.
_FILES_IN_REQUEST = 256


class Writer(Protocol):
    """A destination for the bytes of a packed file."""

    def write(self, piece: bytes, /) -> object: ...


class _Counting:
    """Wraps a writer that accepts all bytes but does not return their number."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def write(self, piece: bytes) -> int:
        self._writer.write(piece)
        return len(piece)


#: Writes a file to a writer or to a path.
Produce = Callable[[Any], None]


@dataclass(frozen=True, slots=True)
class Uploaded:
    """A large file that a hub has stored."""

    sha256: str
    size: int
    sent: int | None
    """Number of bytes that were sent; `None` if unknown."""


@dataclass(frozen=True, slots=True)
class Mode:
    """The hub's decision on how to upload a file."""

    is_large: bool
    is_ignored: bool


class Uploader:
    """Uploads the files of one commit."""

    def __init__(self, hub: Hub, place: Place, create_pr: bool) -> None:
        self._hub = hub
        self._place = place
        self._create_pr = create_pr
        self._query = {"create_pr": "1"} if create_pr else None
        self._session: Any = None

    def modes(self, files: Iterable[tuple[str, bytes, int]]) -> dict[str, Mode]:
        """Asks the hub for the upload modes of files, given as path, first bytes and
        size. The hub refuses this if the user may not write."""
        modes = {}
        waiting = [
            {"path": path, "sample": base64.b64encode(sample).decode(), "size": size}
            for path, sample, size in files
        ]
        for start in range(0, len(waiting), _FILES_IN_REQUEST):
            answer = self._hub.request(
                "POST",
                self._hub.address(self._place, "preupload"),
                json={"files": waiting[start : start + _FILES_IN_REQUEST]},
                params=self._query,
            )
            for file in answer.json()["files"]:
                is_large = file["uploadMode"] == "lfs"
                modes[file["path"]] = Mode(is_large, file.get("shouldIgnore", False))
        return modes

    def upload(self, path: str, produce: Produce) -> Uploaded:
        """Uploads the file that `produce` writes, through Xet if possible."""
        if self.has_xet():
            return self._by_xet(path, produce)
        return self._by_lfs(path, produce)

    def upload_file(self, path: str, file: Path) -> Uploaded:
        """Uploads a local file unchanged, through Xet if possible."""
        if not self.has_xet():
            return self._lfs(path, file)

        def copy(writer: Writer) -> None:
            with open(file, "rb") as source:
                while piece := source.read(1 << 20):
                    writer.write(piece)

        return self._by_xet(path, copy)

    def has_xet(self) -> bool:
        """Returns whether both the hub and this installation support Xet."""
        if self._session is None:
            self._session = self._new_session()
        return self._session is not False

    def _new_session(self) -> Any:
        from huggingface_hub import constants, errors

        if constants.HF_HUB_DISABLE_XET or find_spec("hf_xet") is None:
            return False
        try:
            self._hub.request("GET", self._token_address(), params=self._query)
        except errors.HfHubHTTPError as error:
            # The repository exists, so a missing address means that the hub has no Xet.
            if error.response.status_code == 404:
                return False
            raise
        xet: Any = import_module("hf_xet")
        try:
            return xet.XetSession(xet.XetConfig().with_config(_RESUMABLE))
        except (AttributeError, TypeError, ValueError):
            # Another version of hf_xet has other settings. An interrupted upload then
            # starts over.
            return xet.XetSession()

    def _token_address(self) -> str:
        return self._hub.address(self._place, "xet-write-token")

    def _by_xet(self, path: str, produce: Produce) -> Uploaded:
        headers = self._hub.headers()
        without_token = {
            name: value for name, value in headers.items() if name.lower() != "authorization"
        }
        query = "?create_pr=1" if self._create_pr else ""
        # Each file has its own upload commit. A complete file is then recorded on the
        # hub and is not sent again if a later file fails.
        with self._session.new_upload_commit(
            token_refresh_url=f"{self._token_address()}{query}",
            token_refresh_headers=headers,
            custom_headers=without_token,
        ) as commit:
            stream = commit.start_upload_stream(name=path)
            try:
                produce(_Counting(stream))
                done = stream.finish()
            except KeyboardInterrupt:
                self._session.sigint_abort()
                raise
            except BaseException:
                stream.abort()
                raise
        info = done.xet_info
        return Uploaded(info.sha256, info.file_size, done.dedup_metrics.new_bytes)

    def _by_lfs(self, path: str, produce: Produce) -> Uploaded:
        with tempfile.TemporaryDirectory(prefix="hf-zstn-") as folder:
            spooled = Path(folder) / "packed.zstn"
            produce(spooled)
            return self._lfs(path, spooled)

    def _lfs(self, path: str, file: Path) -> Uploaded:
        from huggingface_hub import CommitOperationAdd

        # For a file object, huggingface_hub uses LFS even if this installation supports
        # Xet.
        with open(file, "rb") as source:
            addition = CommitOperationAdd(path, source)
            self._hub.api.preupload_lfs_files(
                self._place.name,
                [addition],
                repo_type=self._place.repo_type,
                revision=self._place.revision_or_main,
                create_pr=self._create_pr,
                free_memory=False,
            )
            sha256 = addition.upload_info.sha256.hex()
        return Uploaded(sha256, os.path.getsize(file), None)
