"""Rows of plans, stored as one JSON object per line."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from zstn import _native


@dataclass(frozen=True)
class Base:
    """A packed file that others are stored as deltas from."""

    key: str
    #: Its own bases, if it is a delta itself.
    bases: tuple[Base, ...] = ()

    @property
    def packed_name(self) -> str:
        return f"{self.key}.{'z4dm' if self.bases else 'zstn'}"


def to_list(bases: Sequence[Base]) -> list[Any]:
    """Returns bases as the list in a plan: of one base its key and those of its own bases,
    of several sources a list of such lists."""
    lists: list[list[Any]] = [[base.key, *to_list(base.bases)] for base in bases]
    return lists[0] if len(lists) == 1 else lists


def from_list(values: Sequence[Any]) -> tuple[Base, ...]:
    """Returns the bases of a list as `to_list` makes it."""
    if values and isinstance(values[0], str):
        values = [values]
    return tuple(Base(key, from_list(own)) for key, *own in values)


def _all(bases: Iterable[Base]) -> Iterator[Base]:
    for base in bases:
        yield base
        yield from _all(base.bases)


@dataclass(frozen=True)
class Row:
    """A file to pack."""

    repo: str
    revision: str
    path: str
    #: Length in bytes.
    size: int
    #: SHA-256 of the file, in lower-case hex.
    sha256: str
    #: Key of the work, derived from content, options, version and bases.
    key: str
    #: The packed file that this file is stored as a delta from, or the several sources of a
    #: merge.
    bases: tuple[Base, ...] = ()
    #: Length of the largest tensor in bytes, if the header could be read.
    largest_tensor: int | None = None
    #: The version of the file in its listing.
    version: str | None = None

    @property
    def place(self) -> str:
        """The file as OWNER/NAME/PATH, for display."""
        return f"{self.repo}/{self.path}"

    @property
    def packed_name(self) -> str:
        return Base(self.key, self.bases).packed_name

    @property
    def all_bases(self) -> list[Base]:
        """Every packed file that it needs, followed by its own bases. A base of several
        bases occurs several times."""
        return list(_all(self.bases))

    def to_dict(self) -> dict[str, Any]:
        """Returns the row as plain values for a plan, without empty ones."""
        values = {
            "repo": self.repo,
            "revision": self.revision,
            "path": self.path,
            "size": self.size,
            "sha256": self.sha256,
            "key": self.key,
            "bases": to_list(self.bases),
            "largest_tensor": self.largest_tensor,
            "version": self.version,
        }
        return {name: value for name, value in values.items() if value not in (None, [])}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Row:
        """Creates a row from the values in a plan, or from an entry of results, which
        has more."""
        return cls(
            values["repo"],
            values["revision"],
            values["path"],
            values["size"],
            values["sha256"],
            values["key"],
            from_list(values.get("bases", ())),
            values.get("largest_tensor"),
            values.get("version"),
        )


def read_plan(path: str | os.PathLike[str], effort: str, extended: bool) -> list[Row]:
    """Reads a plan, and checks that its keys match these options and this version."""
    rows = _native.read_plan(path, effort, extended)
    return [Row.from_dict(json.loads(row)) for row in rows]


def load_plan(path: str | os.PathLike[str]) -> list[Row]:
    """Reads a plan without checking the options and the version of its keys. Every row
    must have a key.

    Raises:
        ZstnError: if a line is not a row; the message contains its number.
    """
    return [Row.from_dict(json.loads(row)) for row in _native.load_plan(path)]


def write_plan(path: str | os.PathLike[str], rows: Iterable[Row]) -> None:
    """Writes a plan, which appears only when it is complete."""
    part = f"{os.fspath(path)}.{os.getpid()}.part"
    try:
        with open(part, "x", encoding="utf-8") as file:
            for row in rows:
                file.write(json.dumps(row.to_dict()) + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        if os.path.exists(part):
            os.remove(part)
        raise


def share(rows: Iterable[Row], index: int, count: int) -> list[Row]:
    """Returns the rows of one share, as `zstn worker` divides them. Rows that are connected
    by bases are in the same share; every `count`th of these groups belongs to a share."""
    pieces = list(rows)
    keys = [(row.key, [base.key for base in row.all_bases]) for row in pieces]
    return [pieces[number] for number in _native.plan_share(keys, index, count)]


def unique(rows: Iterable[Row]) -> list[Row]:
    """Returns the first row with each key."""
    found: dict[str, Row] = {}
    for row in rows:
        found.setdefault(row.key, row)
    return list(found.values())
