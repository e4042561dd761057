"""Compares the packed files of a plan with their entries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Any

from ... import _native
from ..._errors import ZstnError
from ._row import Row, unique
from ._state import state

#: Number of packed files that are read at the same time.
_READERS = 4


@dataclass(frozen=True)
class Damage:
    """A packed file that is missing or has other bytes than recorded."""

    #: One of the plan's files that it restores, as OWNER/NAME/FILE.
    file: str
    key: str
    reason: str


@dataclass(frozen=True)
class Checked:
    """The result of a check."""

    #: Number of packed files with the recorded bytes.
    sound: int
    #: Number of bytes read from packed files.
    read_bytes: int
    damaged: list[Damage] = field(default_factory=list)
    #: Files that could not be read, so that their state is unknown.
    unread: list[Damage] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Returns the result as plain values, as ``--json`` prints it."""
        return asdict(self)


def check(rows: Sequence[Row], store: str) -> Checked:
    """Reads the packed files of finished rows, and compares their lengths and SHA-256
    with their entries."""
    results = _native.Results(store, existing=True)
    pieces = unique(rows)
    by_key = {row.key: row for row in pieces}
    found = state(results, pieces)
    damaged = [Damage(by_key[key].place, key, reason) for key, reason in found.lost.items()]
    unread: list[Damage] = []
    sound = read_bytes = 0
    with ThreadPoolExecutor(_READERS) as pool:
        todo = [by_key[key] for key in found.done]
        for row, length, reason, is_read in pool.map(
            lambda row: _compare(results, row, found.done[row.key]["packed_sha256"]), todo
        ):
            read_bytes += length
            if reason is None:
                sound += 1
            else:
                (damaged if is_read else unread).append(Damage(row.place, row.key, reason))
    damaged.sort(key=lambda one: one.file)
    unread.sort(key=lambda one: one.file)
    return Checked(sound, read_bytes, damaged, unread)


def repair(store: str, damaged: Sequence[Damage]) -> None:
    """Removes the entries of damaged files, so that the next run packs their originals
    again. The packed files themselves remain: that run keeps a file that restores the
    original after all, and replaces any other."""
    results = _native.Results(store, existing=True)
    for one in damaged:
        results.remove("done", f"{one.key}.json")


def _compare(
    results: _native.Results, row: Row, sha256: str
) -> tuple[Row, int, str | None, bool]:
    name = row.packed_name
    try:
        length, found = _native.stream_sha256(results.at("packed", name))
    except FileNotFoundError:
        return row, 0, f"packed/{name} is missing", True
    except (OSError, ZstnError) as error:
        return row, 0, f"packed/{name} cannot be read: {error}", False
    if found == sha256:
        return row, length, None, True
    return row, length, f"packed/{name} has the SHA-256 {found}, and {sha256} is recorded", True


def lines(checked: Checked, repaired: bool) -> Iterator[str]:
    """Yields the lines that describe a check for people."""
    for one in checked.damaged:
        yield f"damaged: {one.file}: {one.reason}"
    for one in checked.unread:
        yield f"unknown: {one.file}: {one.reason}"
    yield f"{checked.sound:,} packed files are as recorded; {checked.read_bytes:,} bytes read"
    if checked.damaged:
        count = f"{len(checked.damaged):,} damaged or missing"
        yield f"{count}: their entries were removed; run the plan again" if repaired else (
            f"{count}; --repair lets the next run pack their originals again"
        )
