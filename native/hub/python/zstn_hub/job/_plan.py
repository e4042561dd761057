"""Making plans, and choosing the bases of files that are stored as deltas."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from zstn import ZstnError, _native
from zstn import open as open_model

from ._listing import Listed, is_hub, listing
from ._row import Base, Row, to_list
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
            largest, bases = same.largest_tensor, same.bases
        else:
            largest, bases = _largest_tensor(file.location), ()
        row = Row(
            file.repo,
            file.revision,
            file.path,
            size,
            sha256,
            key="",
            largest_tensor=largest,
            version=file.version,
        )
        self._locations[sha256] = file.location
        return self.with_bases(row, bases)

    def location(self, row: Row) -> str:
        """Returns the location from which the content of a planned row can be read."""
        return self._locations[row.sha256]

    def with_bases(self, row: Row, bases: tuple[Base, ...]) -> Row:
        """Returns a row that is stored as a delta from packed files or, without bases,
        as a container."""
        content = _content(row.path, row.sha256)
        listed = json.dumps(to_list(bases))
        key = _native.plan_key(content, self.effort, self.extended, listed)
        return replace(row, key=key, bases=bases)


def _content(path: str, sha256: str) -> str:
    """Returns the SHA-256 of a file with the extension of its name, which decides how the
    same bytes are packed."""
    stem, dot, extension = path.rpartition("/")[2].rpartition(".")
    return f"{sha256}{dot}{extension}" if stem else sha256


def _largest_tensor(location: str) -> int | None:
    """Returns the length of the largest tensor. If the header is invalid, it is `None`;
    packing then reports the error."""
    try:
        with open_model(location) as model:
            return max((info.nbytes for info in model.values()), default=0)
    except (OSError, ZstnError):
        return None


def with_bases(
    rows: Sequence[Row],
    planner: Planner,
    store: str,
    locations: Callable[[Row], str],
    known: Sequence[Row] = (),
) -> list[Row]:
    """Returns the rows of a plan, with a base wherever one is expected to save at least
    a tenth, and with several sources if they are expected to save half of the size with
    the nearest one. Safetensors files are compared by sketches, which are stored with the
    results, so each content is sampled once. Rows that were planned before do not change,
    and may become bases."""
    results = _native.Results(store)
    refused = _refused(results, rows)
    planned = {row.sha256 for row in known}
    contents: dict[str, Row] = {}
    for row in rows:
        # A delta can only be made of safetensors files. Without a length of its largest
        # tensor, the header of a file is invalid.
        if row.path.endswith(".safetensors") and row.largest_tensor is not None:
            if row.key not in refused:
                contents.setdefault(row.sha256, row)
    group = list(contents.values())
    if all(row.sha256 in planned for row in group):
        return list(rows)
    known_sketches = {name for name, _, _ in results.files(_SKETCHES)}

    def is_sketched(row: Row) -> bool:
        return _sketch_name(row) in known_sketches or _sketch(results, row, locations, planner)

    with ThreadPoolExecutor(_READERS) as pool:
        present = list(pool.map(is_sketched, group))
    group = [row for row, is_present in zip(group, present, strict=True) if is_present]
    chosen = _native.choose_bases(
        results,
        _SKETCHES,
        [_sketch_name(row) for row in group],
        [1 + len(row.all_bases) if row.sha256 in planned else None for row in group],
        planner.extended,
    )

    def base(number: int) -> Base:
        row = group[number]
        if chosen[number]:
            row = planner.with_bases(row, bases(number))
        return Base(row.key, row.bases)

    def bases(number: int) -> tuple[Base, ...]:
        return tuple(map(base, chosen[number]))

    numbers = {row.key: number for number, row in enumerate(group) if chosen[number]}
    based = {key: bases(number) for key, number in numbers.items()}

    def with_chosen(row: Row) -> Row:
        return planner.with_bases(row, based[row.key]) if row.key in based else row

    # Packing a file or one of its bases as a delta may have been refused, which their new
    # keys show.
    refused = _refused(results, list(map(with_chosen, group)))
    new_keys = {row.key: with_chosen(row).key for row in group}
    for key, sources in based.items():
        if not refused.isdisjoint([new_keys[key], *(source.key for source in sources)]):
            based[key] = ()
    return list(map(with_chosen, rows))


def _refused(results: _native.Results, rows: Sequence[Row]) -> set[str]:
    """Returns the keys of files that were refused and therefore cannot be bases."""
    failed = {row.key for row in rows} & keys(results, "failed")
    entries = read(results.failed, failed - keys(results, "done"))
    return {key for key, entry in entries.items() if entry["class"] == "refused"}


def _sketch_name(row: Row) -> str:
    return f"{row.sha256}.sketch"


def _sketch(
    results: _native.Results, row: Row, locations: Callable[[Row], str], planner: Planner
) -> bool:
    """Stores the sketch of a file; returns whether that was possible."""
    try:
        sketch = _native.sample_sketch(locations(row))
    except (OSError, ZstnError) as error:
        planner.note(f"without a base: {row.place}: {error}")
        return False
    results.create_file(_SKETCHES, _sketch_name(row), sketch)
    return True
