"""Making plans, and choosing the bases of files that are stored as deltas."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from zstn import ZstnError, _native
from zstn import open as open_model

from ._listing import Listed, is_hub, listing
from ._row import Row
from ._store import keys, read

#: Number of files that are read at the same time: headers, contents or samples.
_READERS = 8
#: Folder of a store for the sketches of files.
_SKETCHES = "sketches"


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
        self._contents = {_content(row.path, row.sha256): row for row in known}

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
        same = self._contents.get(_content(file.path, sha256))
        if same is not None:
            largest, layout, bases = same.largest_tensor, same.layout, same.bases
        else:
            (largest, layout), bases = _header(file.location), ()
            if not file.path.endswith(".safetensors"):
                # A delta can only be made of safetensors files.
                layout = None
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
        content = _content(row.path, row.sha256)
        key = _native.plan_key(content, self.effort, self.extended, list(bases))
        return replace(row, key=key, bases=bases)


def _content(path: str, sha256: str) -> str:
    """Returns the SHA-256 of a file with the extension of its name, which decides how the
    same bytes are packed."""
    stem, dot, extension = path.rpartition("/")[2].rpartition(".")
    return f"{sha256}{dot}{extension}" if stem else sha256


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


def with_bases(
    rows: Sequence[Row],
    planner: Planner,
    store: str,
    locations: Callable[[Row], str],
    known: Sequence[Row] = (),
) -> list[Row]:
    """Returns the rows of a plan, with a base wherever one is expected to save at least
    a tenth. Files with the same layout, which is the names, dtypes and shapes of their
    tensors, are compared by sketches. Sketches are stored with the results, so each
    content is sampled once. Rows that were planned before do not change, and may become
    bases."""
    results = _native.Results(store)
    refused = _refused(results, rows)
    planned = {row.sha256 for row in known}
    chosen: dict[str, Row] = {}
    for group in _groups(rows):
        group = [row for row in group if row.key not in refused]
        fixed = [row.sha256 in planned for row in group]
        if len(group) < 2 or all(fixed):
            continue
        with ThreadPoolExecutor(_READERS) as pool:
            sketches = list(pool.map(lambda row: _sketch(results, row, locations, planner), group))
        present = [number for number, sketch in enumerate(sketches) if sketch is not None]
        bases = _native.choose_bases(
            [sketch for sketch in sketches if sketch is not None],
            [fixed[number] for number in present],
            planner.extended,
        )
        for number, base in zip(present, bases, strict=True):
            if base is not None:
                chosen[group[number].key] = group[present[base]]
    return [
        planner.with_bases(row, (chosen[row.key].key,)) if row.key in chosen else row
        for row in rows
    ]


def _groups(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """Returns groups of containers with the same layout, with each content once."""
    groups: dict[str, dict[str, Row]] = {}
    for row in rows:
        if row.layout is not None and not row.bases:
            groups.setdefault(row.layout, {}).setdefault(row.sha256, row)
    return (list(group.values()) for group in groups.values())


def _refused(results: _native.Results, rows: Sequence[Row]) -> set[str]:
    """Returns the keys of containers that were refused and therefore cannot be bases.
    """
    failed = {row.key for row in rows} & keys(results, "failed")
    entries = read(results.failed, failed - keys(results, "done"))
    return {key for key, entry in entries.items() if entry["class"] == "refused"}


def _sketch(
    results: _native.Results, row: Row, locations: Callable[[Row], str], planner: Planner
) -> bytes | None:
    name = f"{row.sha256}.sketch"
    sketch = results.read_file(_SKETCHES, name)
    if sketch is None:
        try:
            sketch = _native.sample_sketch(locations(row))
        except (OSError, ZstnError) as error:
            planner.note(f"without a base: {row.place}: {error}")
            return None
        results.create_file(_SKETCHES, name, sketch)
    return sketch
