"""The command ``hf zstn push``."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from .. import _native
from .._checkpoint import pack, verify
from .._errors import ZstnError
from ..hub._names import is_other_model
from ._commit import ATTRIBUTES, Commit, Moved, attributes
from ._files import local_files
from ._originals import Kept, Proofs, Snapshot, find
from ._output import bar, escaped, ratio, say, size, table
from ._plan import Entry, Step, packed_index, plan
from ._repository import Hub, Place
from ._upload import SAMPLE_BYTES, Mode, Produce, Uploader

#: First bytes of a packed file, from which a hub recognises that it is not text.
_PACKED_SAMPLE = b"ZSTN\0"

#: Maximum number of attempts to remove originals if others commit at the same time.
_ATTEMPTS = 5


def run(options: Namespace) -> int:
    place = Place.parse(options.repository, options.revision, options.repo_type)
    if place.path is not None:
        raise ZstnError(f"{options.repository} is a file; name a repository, like {place}")
    local = local_files(options.source)
    for name, reason in local.left_out.items():
        say(f"{escaped(name)}: left out, {reason}", options.quiet)
    entries = plan(local.paths, lambda name: not _native.is_other_model(local.paths[name]))
    if not any(entry.path.endswith(".zstn") for entry in entries):
        raise ZstnError(f"{options.source} has no model files, plain or packed, to push")
    kept = Push(options, place, local.paths).run(entries)
    for one in kept:
        text = f"{one.name}: kept, {one.reason}"
        say(f"error: {text}" if one.is_failure else text, options.quiet and not one.is_failure)
    return 1 if any(one.is_failure for one in kept) else 0


class Push:
    """A push of local files to a repository.

    One commit adds the packed files. A second commit removes originals, after the packed
    files have been read from the hub and restored. A push that is interrupted in between
    has removed nothing, and the next push continues.
    """

    def __init__(self, options: Namespace, place: Place, files: dict[str, Path]) -> None:
        self._options = options
        self._place = place
        self._files = files
        self._hub = Hub()
        self._uploader = Uploader(self._hub, place, options.create_pr)
        self._rows: list[tuple[str, ...]] = []

    def run(self, entries: list[Entry]) -> Sequence[Kept]:
        """Pushes the files, and returns the originals that are kept although the user
        wants them removed."""
        # These checks precede all uploads, since a failure would prevent the commit.
        self._check_weights(entries)
        if not self._options.keep_original:
            self._check_packed(entries)
        indexes = {
            entry.path: packed_index(
                entry.name, self._files[entry.name].read_bytes(), self._files
            )
            for entry in entries
            if entry.step is Step.INDEX
        }
        info = self._hub.info(self._place)
        commit = Commit({one.rfilename: one for one in info.siblings or []})
        commit.add(ATTRIBUTES, attributes(self._hub, self._place, commit, info.sha))
        modes = self._uploader.modes(map(self._sample, entries))
        added: set[str] = set()
        for entry in entries:
            if modes[entry.path].is_ignored:
                say(f"{entry.path}: left out because of .gitignore", self._options.quiet)
                continue
            if entry.step is Step.INDEX and modes[entry.path].is_large:
                write = _writing(indexes[entry.path])
                commit.add_large(entry.path, self._uploader.upload(entry.path, write))
            elif entry.step is Step.INDEX:
                commit.add(entry.path, indexes[entry.path])
            else:
                self._add(commit, entry, modes[entry.path])
            added.add(entry.path)
        made = self._finish(commit, info.sha)
        if self._options.keep_original:
            return ()
        place, create_pr = self._place, self._options.create_pr
        if made is not None:
            place, create_pr = _branch(place, made), False
            info = self._hub.info(replace(place, revision=made["commitOid"]))
        return self._remove_originals(place, info, added, create_pr, made is None)

    def _remove_originals(
        self, place: Place, info: Any, added: set[str], create_pr: bool, is_only: bool
    ) -> Sequence[Kept]:
        """Removes the originals that this push's files restore, and returns the others.
        The removal is only committed on top of the commit that was examined."""
        options = self._options
        proofs = Proofs(options.threads, options.memory)
        kept: Sequence[Kept] = ()
        removable: Sequence[str] = ()
        for _ in range(_ATTEMPTS):
            files = Snapshot(self._hub, place, info)
            removable, kept = find(files, added, proofs)
            if not removable:
                break
            commit = Commit(files.files)
            for name in removable:
                commit.delete(name)
            message = f"Remove {', '.join(removable)}, which the packed files restore"
            if len(removable) > 1:
                message = f"Remove {len(removable)} files that the packed ones restore"
            try:
                done = commit.send(self._hub, place, files.commit, message, create_pr)
            except Moved:
                info = self._hub.info(place)
                continue
            for name in removable:
                say(f"{name}: removed, the packed file restores it", options.quiet)
            if is_only:
                print(done.get("pullRequestUrl") or done["commitUrl"], flush=True)
            return kept
        else:
            reason = f"{place} received other commits during every attempt; run the command again"
            kept = [*kept, *(Kept(name, reason, True) for name in removable)]
        if is_only:
            say(f"{place} has all of it already; nothing was committed", options.quiet)
        return kept

    def _check_weights(self, entries: list[Entry]) -> None:
        """Refuses files that are named like safetensors files and have other content, such
        as git-lfs pointers."""
        for entry in entries:
            path = self._files[entry.name]
            is_named = entry.step is Step.PACK and not is_other_model(entry.name)
            if is_named and _native.is_of_another_format(path):
                raise ZstnError(
                    f"{path} is not a safetensors file; rename it, or leave it out", "malformed"
                )

    def _check_packed(self, entries: list[Entry]) -> None:
        """Refuses packed files that are damaged, or that are something else, such as
        git-lfs pointers. Programs would prefer them to the originals."""
        for entry in entries:
            if entry.step is Step.COPY and entry.path.endswith(".zstn"):
                try:
                    verify(
                        self._files[entry.name],
                        threads=self._options.threads,
                        memory=self._options.memory,
                    )
                except ZstnError as error:
                    more = "; --keep-original pushes it as it is"
                    raise ZstnError(f"{error}{more}", error.code) from error

    def _sample(self, entry: Entry) -> tuple[str, bytes, int]:
        path = self._files[entry.name]
        if entry.step is Step.PACK:
            return entry.path, _PACKED_SAMPLE, path.stat().st_size
        with open(path, "rb") as file:
            return entry.path, file.read(SAMPLE_BYTES), path.stat().st_size

    def _add(self, commit: Commit, entry: Entry, mode: Mode) -> None:
        path = self._files[entry.name]
        original = path.stat().st_size
        if entry.step is Step.PACK:
            uploaded = self._uploader.upload(entry.path, lambda sink: self._pack(path, sink))
            more = ratio(original, uploaded.size)
        elif mode.is_large and original > 0:
            uploaded = self._uploader.upload_file(entry.path, path)
            more = ""
        else:
            commit.add(entry.path, path.read_bytes())
            return
        commit.add_large(entry.path, uploaded)
        sent = "" if uploaded.sent is None else size(uploaded.sent)
        self._rows.append((entry.path, size(original), size(uploaded.size), more, sent))

    def _pack(self, path: Path, sink: Any) -> None:
        options = self._options
        with bar(path.name, options.quiet) as progress:
            pack(path, sink, effort=options.effort, extended=options.extended,
                 threads=options.threads, memory=options.memory, progress=progress)  # fmt: skip

    def _finish(self, commit: Commit, parent: str) -> dict[str, Any] | None:
        """Commits the added files and returns the hub's response; `None` if it already
        has all of them."""
        options, place = self._options, self._place
        rows = table(["file", ">original", ">packed", ">ratio", ">sent"], self._rows)
        if commit.is_empty:
            for line in rows:
                say(line, options.quiet)
            if options.keep_original:
                say(f"{place} has all of it already; nothing was committed", options.quiet)
            return None
        message = options.message or f"Add {Path(options.source).resolve().name}, packed with zstn"
        done = commit.send(self._hub, place, parent, message, options.create_pr)
        for line in rows:
            say(line, options.quiet)
        # Printed before originals are read, which takes a while.
        print(done.get("pullRequestUrl") or done["commitUrl"], flush=True)
        return done


def _branch(place: Place, made: dict[str, Any]) -> Place:
    """Returns the place that a commit was added to: a branch or a pull request."""
    url = made.get("pullRequestUrl")
    if not url:
        return place
    return replace(place, revision=f"refs/pr/{url.rpartition('/')[2]}")


def _writing(content: bytes) -> Produce:
    """Returns a function that writes `content` to a path or a writer."""

    def write(sink: Any) -> None:
        if isinstance(sink, Path):
            sink.write_bytes(content)
        else:
            sink.write(content)

    return write
