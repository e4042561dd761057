"""Making plans."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from ... import _native
from ..._errors import ZstnError
from ..._reader import open as open_model
from ._listing import Listed, is_hub, listing
from ._row import Row

#: Number of files whose headers and contents are read at the same time.
_READERS = 8


class Planner:
    """Makes rows for the files of a source. If an earlier plan or entry describes the
    same version of a file, the file is not read again."""

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
        #: Bytes read from files to compute their SHA-256.
        self.read_bytes = 0
        if is_hub(source):
            # ``hf://`` addresses refer to this hub.
            os.environ["HF_ENDPOINT"] = source
        known = list(known)
        self._versions: dict[tuple[str, str, str | None], Row] = {
            (row.repo, row.path, row.version): row for row in known
        }
        self._locations: dict[str, str] = {}
        self._contents = {row.sha256: row for row in known}

    def rows(self, repositories: Sequence[str] = ()) -> list[Row]:
        """Lists the source and returns its rows, sorted by repository and path."""
        listed = listing(self.source, repositories, self.note)
        files = sorted(listed, key=lambda file: (file.repo, file.path))
        with ThreadPoolExecutor(_READERS) as pool:
            return [row for row in pool.map(self._row, files) if row is not None]

    def _row(self, file: Listed) -> Row | None:
        before = self._versions.get((file.repo, file.path, file.version))
        sha256 = file.sha256
        if sha256 is None and before is not None and file.version is not None:
            sha256 = before.sha256
        size = file.size
        if sha256 is None:
            try:
                size, sha256 = _native.stream_sha256(file.location)
            except (OSError, ZstnError) as error:
                self.note(f"left out: {file.repo}/{file.path}: {error}")
                return None
            self.read_bytes += size
        # A content that was planned before keeps its base, and therefore its key.
        same = self._contents.get(sha256)
        if same is not None:
            largest, layout, bases = same.largest_tensor, same.layout, same.bases
        else:
            (largest, layout), bases = _header(file.location), ()
        row = Row(
            file.repo,
            file.revision,
            file.path,
            size,
            sha256,
            key="",
            largest_tensor=largest,
            version=file.version,
            layout=layout,
        )
        self._locations[sha256] = file.location
        return self.with_bases(row, bases)

    def location(self, row: Row) -> str:
        """Returns the location from which the content of a planned row can be read."""
        return self._locations[row.sha256]

    def with_bases(self, row: Row, bases: tuple[str, ...]) -> Row:
        """Returns a row that is stored as a delta from packed files or, without bases,
        as a container."""
        key = _native.plan_key(row.sha256, self.effort, self.extended, list(bases))
        return replace(row, key=key, bases=bases)


def _header(location: str) -> tuple[int | None, str | None]:
    """Reads the header of a file, and returns the length of the largest tensor and the
    layout. If the header is invalid, both are `None`; packing then reports the error.
    """
    try:
        with open_model(location) as model:
            infos = sorted((info.name, info.dtype, info.shape) for info in model.values())
            largest = max((info.nbytes for info in model.values()), default=0)
    except (OSError, ZstnError):
        return None, None
    return largest, hashlib.sha256(json.dumps(infos).encode()).hexdigest()
