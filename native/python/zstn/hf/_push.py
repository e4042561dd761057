"""``hf zstn push``"""

from __future__ import annotations

import posixpath
import re
from argparse import Namespace
from pathlib import Path
from typing import Any

from .._checkpoint import pack
from .._errors import ZstnError
from .._reader import open as open_reader
from ..hub._names import is_plain_index, restored_name
from ._commit import ATTRIBUTES, Commit, attributes
from ._plan import Entry, Step, local_files, packed_index, plan
from ._progress import bar, say
from ._repository import Hub, Place
from ._table import ratio, size, table
from ._upload import SAMPLE_BYTES, Mode, Produce, Uploader

_SHARD = re.compile(r"-\d+-of-\d+\.safetensors$")

#: First bytes of a packed file, as far as a hub needs them to see that it is
#: not text.
_PACKED_SAMPLE = b"ZSTN\0"


def run(options: Namespace) -> None:
    place = Place.parse(options.repository, options.revision, options.repo_type)
    if place.path is not None:
        raise ZstnError(f"{options.repository} is a file; name a repository, like {place}")
    files = local_files(options.source)
    entries = plan(files)
    if not any(entry.path.endswith(".zstn") for entry in entries):
        raise ZstnError(f"{options.source} has no .safetensors or .zstn files")
    Push(options, place, files).run(entries)


class Push:
    """A push of local files to a repository, as one commit."""

    def __init__(self, options: Namespace, place: Place, files: dict[str, Path]) -> None:
        self._options = options
        self._place = place
        self._files = files
        self._hub = Hub()
        self._uploader = Uploader(self._hub, place, options.create_pr)
        self._rows: list[tuple[str, ...]] = []

    def run(self, entries: list[Entry]) -> None:
        # Before anything is uploaded that could not be committed.
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
                say(f"{entry.path}: left out, as .gitignore says", self._options.quiet)
                continue
            if entry.step is Step.INDEX and modes[entry.path].is_large:
                write = _writing(indexes[entry.path])
                commit.add_large(entry.path, self._uploader.upload(entry.path, write))
            elif entry.step is Step.INDEX:
                commit.add(entry.path, indexes[entry.path])
            else:
                self._add(commit, entry, modes[entry.path])
            added.add(entry.path)
        if not self._options.keep_original:
            self._delete_originals(commit, added)
        self._finish(commit, info.sha)

    def _delete_originals(self, commit: Commit, added: set[str]) -> None:
        """Deletes the files that those of this push restore."""
        originals = {name for path in added if (name := restored_name(path)) is not None}
        # Without one of its shards, a plain checkpoint that stays could not be read.
        indexes = [name for name in commit.known if is_plain_index(name)]
        kept = {posixpath.dirname(name) for name in indexes if name not in originals}
        for name in sorted(originals):
            if _SHARD.search(name) and posixpath.dirname(name) in kept:
                say(f"{name}: kept, its index is not part of this push", self._options.quiet)
            else:
                commit.delete(name)

    def _check_packed(self, entries: list[Entry]) -> None:
        """Refuses files with the names of packed ones that are something else,
        such as pointers of git-lfs: they would take the place of originals."""
        for entry in entries:
            if entry.step is Step.COPY and entry.path.endswith(".zstn"):
                try:
                    open_reader(self._files[entry.name]).close()
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

    def _finish(self, commit: Commit, parent: str) -> None:
        options, place = self._options, self._place
        rows = table(["file", ">original", ">packed", ">ratio", ">sent"], self._rows)
        if commit.is_empty:
            for line in rows:
                say(line, options.quiet)
            say(f"{place} has all of it already; nothing was committed", options.quiet)
            return
        message = options.message or f"Add {Path(options.source).resolve().name}, packed with zstn"
        done = commit.send(self._hub, place, parent, message, options.create_pr)
        for line in rows:
            say(line, options.quiet)
        print(done.get("pullRequestUrl") or done["commitUrl"])


def _writing(content: bytes) -> Produce:
    """Returns a function that writes this to a path or a writer."""

    def write(sink: Any) -> None:
        if isinstance(sink, Path):
            sink.write_bytes(content)
        else:
            sink.write(content)

    return write
