"""Compares the entries of a plan with the packed files that exist in a store."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ... import _native
from ._entries import keys, read
from ._row import Row


@dataclass(frozen=True)
class State:
    """Entries in ``done`` for some rows, compared with the files in ``packed``."""

    #: Entries whose packed file exists with the recorded length.
    done: dict[str, dict[str, Any]]
    #: Reasons why other entries are not valid, by key.
    lost: dict[str, str]


def state(results: _native.Results, rows: Iterable[Row]) -> State:
    """Compares entries with a listing of the packed files. No packed file is read."""
    by_key = {row.key: row for row in rows}
    entries = read(results.done, by_key.keys() & keys(results, "done"))
    lengths = {name: length for name, length, _ in results.files("packed")} if entries else {}
    found = State({}, {})
    for key, entry in entries.items():
        reason = fault(by_key[key], entry, lengths)
        if reason is None:
            found.done[key] = entry
        else:
            found.lost[key] = reason
    return found


def fault(row: Row, entry: Mapping[str, Any], lengths: Mapping[str, int]) -> str | None:
    """Returns the reason why an entry does not prove that its row is done; `None` if it
    does."""
    if entry["key"] != row.key or entry["sha256"] != row.sha256:
        return f"done/{row.key}.json is the entry of another file"
    if not re.fullmatch("[0-9a-f]{64}", entry["packed_sha256"]):
        return f"done/{row.key}.json records no digest"
    length = lengths.get(row.packed_name)
    if length is None:
        return f"packed/{row.packed_name} is missing"
    if length != entry["packed_size"]:
        return (
            f"packed/{row.packed_name} has {length:,} bytes, and {entry['packed_size']:,} are "
            "recorded"
        )
    return None
