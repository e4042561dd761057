"""Garbage collection: removing packed files that no plan needs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ... import _native
from ._entries import keys, read
from ._row import Row

#: Age in seconds after which an unfinished file counts as abandoned.
_ABANDONED_SECONDS = 24 * 3600


@dataclass(frozen=True)
class Garbage:
    """Files of a store that no plan names and no delta needs."""

    #: Names in ``packed/``, with their lengths.
    packed: dict[str, int] = field(default_factory=dict)
    #: Names in ``done/`` and ``failed/``, as FOLDER/NAME.
    entries: list[str] = field(default_factory=list)
    #: Unfinished files older than a day, as FOLDER/NAME, with their lengths.
    unfinished: dict[str, int] = field(default_factory=dict)
    #: Packed files that no plan names but deltas need, with the number of those deltas.
    needed: dict[str, int] = field(default_factory=dict)

    @property
    def freed_bytes(self) -> int:
        return sum(self.packed.values()) + sum(self.unfinished.values())

    def to_dict(self) -> dict[str, Any]:
        """Returns the result as plain values, as ``--json`` prints it."""
        return {
            "packed": self.packed,
            "entries": self.entries,
            "unfinished": self.unfinished,
            "needed": self.needed,
            "freed_bytes": self.freed_bytes,
        }


def find_garbage(store: str, rows: Iterable[Row]) -> Garbage:
    """Finds files that can be removed: packed files and entries whose key belongs to
    none of the rows and is not the base of any delta among them, whether finished or
    planned. Rows made with other options or by another version also count."""
    results = _native.Results(store, existing=True)
    # Listed before the entries, so that files written meanwhile are not in the list.
    packed = results.files("packed")
    done, failed = keys(results, "done"), keys(results, "failed")
    named: set[str] = set()
    references: dict[str, int] = {}
    pieces = {row.key: row.bases for row in rows}
    entries = read(results.done, pieces.keys() & done)
    for key, bases in pieces.items():
        named.add(key)
        # The entry records the bases that the packed file really needs.
        entry = entries.get(key, {})
        for base in {*bases, *entry.get("bases", ())}:
            references[base] = references.get(base, 0) + 1
    kept = named | references.keys()
    garbage = Garbage(
        entries=[
            f"{folder}/{key}.json"
            for folder, found in (("done", done), ("failed", failed))
            for key in sorted(found - kept)
        ]
    )
    for name, length, age in packed:
        key, _, extension = name.partition(".")
        if name.endswith(".part"):
            if age is not None and age > _ABANDONED_SECONDS:
                garbage.unfinished[f"packed/{name}"] = length
        elif extension in ("zstn", "z4dm") and key not in kept:
            garbage.packed[name] = length
        elif key not in named and key in references:
            garbage.needed[name] = references[key]
    for folder in ("done", "failed"):
        for name, length, age in results.files(folder):
            if name.endswith(".part") and age is not None and age > _ABANDONED_SECONDS:
                garbage.unfinished[f"{folder}/{name}"] = length
    return garbage


def remove_garbage(store: str, garbage: Garbage) -> None:
    """Removes the garbage. Entries go first, so that no entry is left without its
    packed file, and deltas go before their bases."""
    results = _native.Results(store, existing=True)
    for path in garbage.entries:
        results.remove(*path.split("/", 1))
    for name in sorted(garbage.packed, key=lambda name: name.endswith(".zstn")):
        results.remove("packed", name)
    for path in garbage.unfinished:
        results.remove(*path.split("/", 1))
