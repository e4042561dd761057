"""Finds originals, which are plain files that packed files replace, in a repository, and
proves that the packed files restore them."""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from .. import _native
from .._checkpoint import _common
from .._errors import ZstnError
from ..hub._names import is_index, is_plain_index, restored_index, restored_name
from ._errors import sentence
from ._repository import Hub, Place

_SHARD = re.compile(r"(?P<stem>.+)-\d+-of-(?P<count>\d+)\.safetensors")
_DELTA = re.compile(r"(?P<stem>.+)\.z4dm")


@dataclass(frozen=True, slots=True)
class Kept:
    """An original that remains in the repository."""

    name: str
    reason: str
    is_failure: bool
    """Whether a packed file should restore it but the proof has failed."""


class Proofs:
    """Results of proving that packed files restore originals, based on the digests that
    the hub lists."""

    def __init__(self, threads: int = 0, memory: int | None = None) -> None:
        self.threads = threads
        self.memory = memory
        self._known: dict[tuple[object, ...], str | None] = {}

    def reason_to_keep(self, files: Snapshot, name: str, packed: str) -> str | None:
        """Returns the reason why the original `name` must be kept, or `None` if
        `packed` provably restores it."""
        key = (*_identity(files[name]), *_identity(files[packed]))
        if key not in self._known:
            self._known[key] = self._check(files, name, packed)
        return self._known[key]

    def _check(self, files: Snapshot, name: str, packed: str) -> str | None:
        try:
            if is_index(name):
                if not _is(files[name], restored_index(files.read(packed))):
                    return f"{packed} restores another index"
                return None
            stored = files[packed].lfs
            _native.check_restores(
                files.place.address(packed, files.commit),
                None if stored is None else stored.sha256,
                [],
                files.sha256(name),
                _common(self.threads, self.memory, True, None, files.hub.token, None),
            )
        except Exception as error:
            reason = sentence(error)
            if reason is None:
                raise
            return reason
        return None


class Snapshot:
    """The files of a commit, as the hub lists them."""

    def __init__(self, hub: Hub, place: Place, info: Any) -> None:
        self.hub = hub
        self.place = place
        self.commit: str = info.sha
        self.files: dict[str, Any] = {one.rfilename: one for one in info.siblings or []}

    def __contains__(self, name: str) -> bool:
        return name in self.files

    def __getitem__(self, name: str) -> Any:
        return self.files[name]

    def read(self, name: str) -> bytes:
        """Reads a small file, and compares it with the digest that the hub lists."""
        url = f"{self.hub.endpoint}/{self.place}/resolve/{self.commit}/{quote(name)}"
        content: bytes = self.hub.request("GET", url, follow_redirects=True).content
        if not _is(self[name], content):
            raise ZstnError(f"{name} does not match the digest that the hub lists", "differs")
        return content

    def sha256(self, name: str) -> str:
        """Returns the SHA-256 of a file. The hub lists it for large files; a small file
        is read."""
        listed = self[name]
        if listed.lfs is not None:
            return str(listed.lfs.sha256)
        return hashlib.sha256(self.read(name)).hexdigest()


def find(
    files: Snapshot, pushed: Iterable[str], proofs: Proofs
) -> tuple[list[str], list[Kept]]:
    """Returns the originals in a commit that may be removed, and those that are kept.

    An original may be removed if a packed file of the push, as stored on the hub,
    restores bytes with the digest that the hub lists for the original. The files of a
    checkpoint in several files are removed together with their index, or all are kept.
    """
    pushed = set(pushed)
    packed = {
        name: path for path in pushed if (name := restored_name(path)) is not None and name in files
    }
    groups = list(_groups(files)) if packed else []
    kept: dict[str, Kept] = {}
    for index, members in groups:
        for name in sorted(members, key=lambda name: (name != index, name)):
            if name in packed:
                continue
            if name == index:
                reason = "its index is not part of this push"
            elif name in files:
                reason = f"{name} of the same checkpoint is not part of this push"
            else:
                reason = f"its index names {name}, which is not there"
            _keep(kept, members & packed.keys(), reason, False)
            break
    # An index that cannot be read may list any shard in its folder.
    named = {name for index, members in groups if index is not None for name in members}
    others = files.files.keys() - packed.keys()
    stays = {posixpath.dirname(name) for name in others if is_plain_index(name)}
    for name in packed.keys() - named:
        if _SHARD.fullmatch(name) and posixpath.dirname(name) in stays:
            _keep(kept, [name], "its index is not part of this push", False)
    _spread(kept, groups, packed)
    # Indexes come first because they are short.
    for name, path in sorted(packed.items(), key=lambda one: (not is_index(one[0]), one)):
        if name in kept:
            continue
        unproved: str | None = f"{path} is not in the repository"
        if path in files:
            unproved = proofs.reason_to_keep(files, name, path)
        if unproved is not None:
            kept[name] = Kept(name, unproved, True)
            # The whole checkpoint is kept, so its other files need not be read.
            _spread(kept, groups, packed)
    for path in pushed:
        match = _DELTA.fullmatch(path)
        name = f"{match['stem']}.safetensors" if match is not None else ""
        if name in files and name not in packed:
            reason = f"{path} is a delta, which does not name its base"
            kept[name] = Kept(name, reason, False)
    return sorted(packed.keys() - kept.keys()), [kept[name] for name in sorted(kept)]


def _groups(files: Snapshot) -> Iterable[tuple[str | None, set[str]]]:
    """Yields groups of files that form a checkpoint, each with the name of its index,
    or `None` for shards that are grouped by their numbered names."""
    numbered: dict[tuple[str, str], set[str]] = {}
    for name in files.files:
        shard = _SHARD.fullmatch(name)
        if shard is not None:
            numbered.setdefault((shard["stem"], shard["count"]), set()).add(name)
        if not is_plain_index(name):
            continue
        try:
            weights = json.loads(files.read(name))["weight_map"]
            shards = {posixpath.join(posixpath.dirname(name), shard) for shard in weights.values()}
        except (ValueError, KeyError, TypeError, AttributeError):
            # The file is not an index, so it lists no shards.
            shards = set()
        yield name, {name, *shards}
    for names in numbered.values():
        yield None, names


def _keep(kept: dict[str, Kept], names: Iterable[str], reason: str, is_failure: bool) -> None:
    for name in names:
        kept.setdefault(name, Kept(name, reason, is_failure))


def _spread(
    kept: dict[str, Kept], groups: list[tuple[str | None, set[str]]], packed: dict[str, str]
) -> None:
    """Keeps all files of every checkpoint that has a file to keep."""
    changed = True
    while changed:
        changed = False
        for _, members in groups:
            first = next((name for name in sorted(members) if name in kept), None)
            if first is None:
                continue
            others = members & packed.keys() - kept.keys()
            changed |= bool(others)
            _keep(kept, others, f"{first} of the same checkpoint is kept", False)


def _identity(listed: Any) -> tuple[object, ...]:
    return listed.blob_id, None if listed.lfs is None else listed.lfs.sha256


def _is(listed: Any, content: bytes) -> bool:
    """Returns whether a file listed by the hub has this content."""
    if listed.lfs is not None:
        return bool(listed.lfs.sha256 == hashlib.sha256(content).hexdigest())
    header = b"blob %d\0" % len(content)
    return bool(listed.blob_id == hashlib.sha1(header + content).hexdigest())
