"""Chooses bases for a plan's files: which files are stored as deltas from others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from ... import _native
from ..._errors import ZstnError
from ._entries import keys, read
from ._plan import Planner
from ._row import Row

#: Number of files that are sampled at the same time.
_READERS = 8
_FOLDER = "sketches"


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
                chosen[group[number].sha256] = group[present[base]]
    return [
        planner.with_bases(row, (chosen[row.sha256].key,)) if row.sha256 in chosen else row
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
    sketch = results.read_file(_FOLDER, name)
    if sketch is None:
        try:
            sketch = _native.sample_sketch(locations(row))
        except (OSError, ZstnError) as error:
            planner.note(f"without a base: {row.place}: {error}")
            return None
        results.create_file(_FOLDER, name, sketch)
    return sketch
