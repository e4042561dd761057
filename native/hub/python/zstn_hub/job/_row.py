"""Rows of plans, stored as one JSON object per line."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from zstn import _native


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
    #: Keys of the packed files that this file is stored as a delta from.
    bases: tuple[str, ...] = ()
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
        return f"{self.key}.{'z4dm' if self.bases else 'zstn'}"

    @property
    def base_names(self) -> list[str]:
        """The names of the packed files that it needs, in the order of `bases`."""
        last = len(self.bases) - 1
        return [
            f"{key}.{'zstn' if number == last else 'z4dm'}"
            for number, key in enumerate(self.bases)
        ]

    def to_dict(self) -> dict[str, Any]:
        """Returns the row as plain values for a plan, without empty ones."""
        values = {
            "repo": self.repo,
            "revision": self.revision,
            "path": self.path,
            "size": self.size,
            "sha256": self.sha256,
            "key": self.key,
            "bases": list(self.bases),
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
            tuple(values.get("bases", ())),
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
        ValueError: if a line is not a row; the message contains its number.
    """
    rows = []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = Row.from_dict(json.loads(line))
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise ValueError(f"{path}, line {number}: this is not a row with a key: {error}") from error
            if not re.fullmatch("[0-9a-f]{64}", row.key):
                raise ValueError(f"{path}, line {number}: a key has 64 hex digits")
            rows.append(row)
    return rows


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
    """Returns the rows of one share, as `zstn worker` divides them. Of the different
    rows without a base, every `count`th belongs to a share; a row with bases belongs to
    the share of its last base."""
    pieces = unique(rows)
    known = {row.key for row in pieces}

    def root(row: Row) -> str:
        return row.bases[-1] if row.bases and row.bases[-1] in known else row.key

    roots = [row.key for row in pieces if root(row) == row.key]
    numbers = {key: number for number, key in enumerate(roots)}
    return [row for row in pieces if numbers.get(root(row), 0) % count == index]


def unique(rows: Iterable[Row]) -> list[Row]:
    """Returns the first row with each key."""
    found: dict[str, Row] = {}
    for row in rows:
        found.setdefault(row.key, row)
    return list(found.values())
