"""Making plans."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from ... import _native
from ..._errors import ZstnError
from ..._reader import open as open_model
from ._listing import Listed, listing
from ._row import Row

#: Files whose headers and contents are read at the same time.
_READERS = 8


class Planner:
    """Makes rows of the files of a source. What an earlier plan or entry knows of the
    same version of a file is not read again."""

    def __init__(
        self,
        source: str,
        effort: str = "balanced",
        extended: bool = False,
        known: Iterable[Row] = (),
        note: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.source = source
        self.effort = effort
        self.extended = extended
        self.note = note
        #: Bytes of files that were read for their SHA-256.
        self.read_bytes = 0
        known = list(known)
        self._versions = {
            (row.repo, row.path, row.version): row for row in known if row.version is not None
        }
        self._contents = {row.sha256: row for row in known}

    def rows(self, repositories: Sequence[str] = ()) -> list[Row]:
        """Lists the source and returns its rows, ordered by repository and path."""
        files = sorted(listing(self.source, repositories), key=lambda file: (file.repo, file.path))
        with ThreadPoolExecutor(_READERS) as pool:
            return [row for row in pool.map(self._row, files) if row is not None]

    def _row(self, file: Listed) -> Row | None:
        before = self._versions.get((file.repo, file.path, file.version))
        sha256 = file.sha256
        if sha256 is None and before is not None:
            sha256 = before.sha256
        size = file.size
        if sha256 is None:
            try:
                size, sha256 = _native.stream_sha256(file.location)
            except (OSError, ZstnError) as error:
                self.note(f"left out: {file.repo}/{file.path}: {error}")
                return None
            self.read_bytes += size
        # A content that was planned before keeps its base, and so its key.
        same = self._contents.get(sha256)
        bases = () if same is None else same.bases
        largest = same.largest_tensor if same is not None else _largest_tensor(file.location)
        row = Row(
            file.repo, file.revision, file.path, size, sha256, "", bases, largest, file.version
        )
        return self.with_bases(row, bases)

    def with_bases(self, row: Row, bases: tuple[str, ...]) -> Row:
        """Returns a row as a difference from packed files, or as a container."""
        key = _native.plan_key(row.sha256, self.effort, self.extended, list(bases))
        return replace(row, key=key, bases=bases)


def _largest_tensor(location: str) -> int | None:
    """Reads the header of a file. `None` if it has none: packing says what is wrong."""
    try:
        with open_model(os.fspath(location)) as model:
            infos = model.values()
            return max((info.nbytes for info in infos), default=0)
    except (OSError, ZstnError):
        return None
