"""The files of a store: the entries of finished work, checks of the packed files, and the
removal of files that no plan needs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Any

from zstn import ZstnError, _native

from ._row import Row, unique

#: Number of entries that are read at the same time.
_ENTRY_READERS = 16
#: Number of packed files that are read at the same time.
_FILE_READERS = 4
#: Age in seconds after which an unfinished file counts as abandoned.
_ABANDONED_SECONDS = 24 * 3600


def keys(results: _native.Results, folder: str) -> set[str]:
    """Returns the keys that have an entry in ``done`` or ``failed``, from one listing.
    """
    return {
        name.removesuffix(".json")
        for name, _, _ in results.files(folder)
        if name.endswith(".json")
    }


def read(get: Callable[[str], str | None], wanted: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Returns the entries of those keys that have one, by key. `get` is `Results.done`
    or `Results.failed`."""
    with ThreadPoolExecutor(_ENTRY_READERS) as pool:
        texts = list(pool.map(get, wanted))
    entries = (json.loads(text) for text in texts if text is not None)
    return {entry["key"]: entry for entry in entries}


@dataclass(frozen=True)
class State:
    """Entries in ``done`` for some rows, compared with the files in ``packed``."""

    #: Entries whose packed file exists with the recorded length.
    done: dict[str, dict[str, Any]]
    #: Reasons why other entries are not valid, by key.
    lost: dict[str, str]
    #: Keys in `lost` of deltas that are sound themselves, but have lost a base.
    baseless: set[str]


def state(results: _native.Results, rows: Iterable[Row]) -> State:
    """Compares entries with a listing of the packed files. No packed file is read."""
    by_key = {row.key: row for row in rows}
    entries = read(results.done, by_key.keys() & keys(results, "done"))
    lengths = {name: length for name, length, _ in results.files("packed")} if entries else {}
    found = State({}, {}, set())
    for key, entry in entries.items():
        reason = fault(by_key[key], entry, lengths)
        if reason is None:
            found.done[key] = entry
        else:
            found.lost[key] = reason
    for key in list(found.done):
        row = by_key[key]
        for base in row.all_bases:
            if base.key in found.lost or base.packed_name not in lengths:
                is_planned = base.key in by_key
                place = by_key[base.key].place if is_planned else base_place(results, base.key)
                found.lost[key] = f"its base {place} is lost (packed/{base.packed_name})"
                found.baseless.add(key)
                del found.done[key]
                break
    return found


def base_place(results: _native.Results, key: str) -> str:
    """Returns OWNER/NAME/FILE of a base from its entry, or its key without an entry."""
    entry = results.done(key) or results.failed(key)
    return key if entry is None else Row.from_dict(json.loads(entry)).place


def _other_bases(results: _native.Results, rows: Sequence[Row]) -> list[Row]:
    """Returns the rows of bases that deltas need and that none of `rows` describes, from
    their entries."""
    known = {row.key for row in rows}
    wanted = {base.key for row in rows for base in row.all_bases} - known
    entries = read(results.done, wanted & keys(results, "done")) if wanted else {}
    return [Row.from_dict(entry) for entry in entries.values()]


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


def check(rows: Sequence[Row], store: str, *, existing: bool = True) -> Checked:
    """Reads the packed files of finished rows and of the bases that they need, and
    compares their lengths and SHA-256 with their entries.

    Args:
        existing: raise a `ZstnError` if the store contains no results.
    """
    results = _native.Results(store, existing=existing)
    pieces = unique(rows)
    pieces += _other_bases(results, pieces)
    by_key = {row.key: row for row in pieces}
    found = state(results, pieces)
    # A delta without its base is listed only if the base has no entry, and is not listed
    # itself.
    damaged = [
        Damage(by_key[key].place, key, reason)
        for key, reason in found.lost.items()
        if key not in found.baseless
        or found.lost.keys().isdisjoint(base.key for base in by_key[key].all_bases)
    ]
    unread: list[Damage] = []
    sound = read_bytes = 0
    with ThreadPoolExecutor(_FILE_READERS) as pool:
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


def repair(rows: Iterable[Row], store: str, damaged: Sequence[Damage]) -> int:
    """Removes the entries of damaged files, so that the next run of the plan with these
    rows packs their originals again. The packed files themselves remain: that run keeps a
    file that restores the original after all, and replaces any other. Bases that no row
    packs are left. Returns the number of removed entries."""
    planned = {row.key for row in rows}
    found = [one for one in damaged if one.key in planned]
    if found:
        results = _native.Results(store, existing=True)
        for one in found:
            results.remove("done", f"{one.key}.json")
    return len(found)


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
    pieces = {row.key: row for row in rows}
    entries = read(results.done, pieces.keys() & done)
    for key, row in pieces.items():
        named.add(key)
        bases = row.all_bases
        if key in entries:
            # The entry records the bases that the packed file really needs.
            bases += Row.from_dict(entries[key]).all_bases
        for base in {base.key for base in bases}:
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
    packed file, and deltas go before containers."""
    results = _native.Results(store, existing=True)
    for path in garbage.entries:
        results.remove(*path.split("/", 1))
    for name in sorted(garbage.packed, key=lambda name: name.endswith(".zstn")):
        results.remove("packed", name)
    for path in garbage.unfinished:
        results.remove(*path.split("/", 1))
