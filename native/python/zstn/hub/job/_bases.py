"""Local copies of packed bases, in a cache shared by all processes of a machine."""

from __future__ import annotations

import json
import os
from pathlib import Path

from ... import _native
from ..._errors import ZstnError
from .._cache import cache_folder, locked, unfinished
from ._row import Row

_FOLDER = "packed"


class MissingBaseError(Exception):
    """A base has not been packed yet."""


class RefusedBaseError(Exception):
    """A base was refused, so it will never be packed."""


def base_paths(results: _native.Results, row: Row) -> list[Path]:
    """Returns the packed bases of a row, in the order of its `bases`. Bases in an object
    store are downloaded to the folder `cache_folder`, once for all processes, and
    compared with the SHA-256 in their entries.

    Raises:
        MissingBaseError, RefusedBaseError: if a base is not available.
    """
    return [
        _path(results, key, name) for key, name in zip(row.bases, row.base_names, strict=True)
    ]


def _path(results: _native.Results, key: str, name: str) -> Path:
    entry = results.done(key)
    if entry is None:
        failed = results.failed(key)
        values = {} if failed is None else json.loads(failed)
        if values.get("class") == "refused":
            raise RefusedBaseError(
                f"its base {key} was refused: {values['reason']}; make the plan again for "
                "another base"
            )
        raise MissingBaseError(f"its base {key} is not packed yet")
    location = results.at("packed", name)
    if "://" not in location:
        path = Path(location)
        if not path.is_file():
            raise MissingBaseError(f"its base {key} has lost its packed file; run the plan again")
        return path
    place = cache_folder() / _FOLDER / name
    if place.is_file():
        return place
    with locked(f"packed-{key}"):
        if not place.is_file():
            _fetch(location, place, json.loads(entry)["packed_sha256"])
    return place


def _fetch(location: str, place: Path, sha256: str) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    with unfinished() as folder:
        part = folder / place.name
        _, found = _native.copy_sha256(location, part)
        if found != sha256:
            raise ZstnError(
                f"{location} has the SHA-256 {found}, but its entry records {sha256}; remove both, "
                "and run the plan again",
                "differs",
            )
        part.chmod(part.stat().st_mode & 0o444)
        os.replace(part, place)
