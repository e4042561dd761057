"""Restoring files of a plan, and the cache of packed bases that all processes of a
machine share."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path

from zstn import ZstnError, _native, unpack
from zstn.hub import cache_folder
from zstn.hub._cache import locked, unfinished

from ._row import Base, Row
from ._store import base_place

#: Folder of the cache for packed bases.
_CACHED = "packed"

_REPAIR = "`python -m zstn_hub check --repair` and another run pack it again"


def restore(row: Row, store: str, output: str | os.PathLike[str], threads: int = 0) -> None:
    """Restores the file of a row, and compares it with the SHA-256 in the plan. The
    bases of a delta come from the cache for packed bases (`zstn.hub.cache_folder`).

    If `output` already exists with these bytes, it remains.

    Raises:
        FileNotFoundError: if the row is not done, or its packed file is missing.
        ZstnError: with the code ``"differs"`` if the SHA-256 differs, or ``"exists"`` if
            another file exists at `output`.
    """
    results = _native.Results(store, existing=True)
    if results.done(row.key) is None:
        raise FileNotFoundError(f"{row.place} is not packed in {store}; run the plan first")
    output = Path(output)
    if output.is_symlink() or output.exists():
        if output.is_file() and _sha256(output) == row.sha256:
            return
        raise ZstnError(
            f"{row.place}: {output} already exists with other bytes; choose another folder, or "
            "move it away",
            "exists",
        )
    output.parent.mkdir(parents=True, exist_ok=True)
    packed = results.at("packed", row.packed_name)
    part = output.with_name(f".{output.name}.{os.getpid()}.part")
    try:
        try:
            bases = base_paths(results, row) if row.bases else None
            unpack(packed, part, base=bases, threads=threads)
        except FileNotFoundError as error:
            raise FileNotFoundError(
                f"{row.place}: a packed file is missing ({error}); run the plan again"
            ) from error
        except (MissingBaseError, RefusedBaseError) as error:
            raise ZstnError(f"{row.place}: {error}", "needs_base") from error
        except DamagedBaseError as error:
            raise ZstnError(f"{row.place}: {error}; {_REPAIR}", "differs") from error
        except ZstnError as error:
            raise ZstnError(f"{row.place}: {error}; {_REPAIR}", error.code) from error
        digest = _sha256(part)
        if digest != row.sha256:
            raise ZstnError(
                f"{row.place}: the restored file has the SHA-256 {digest}, "
                f"but the plan lists {row.sha256}; {_REPAIR}",
                "differs",
            )
        os.replace(part, output)
    finally:
        with contextlib.suppress(FileNotFoundError):
            part.unlink()


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class MissingBaseError(Exception):
    """A base has not been packed yet."""


class RefusedBaseError(Exception):
    """A base was refused, so it will never be packed."""


class DamagedBaseError(Exception):
    """The packed file of a base has other bytes than its entry records."""

    def __init__(self, message: str, key: str) -> None:
        super().__init__(message)
        #: The key of the base.
        self.key = key


def base_paths(
    results: _native.Results, row: Row, places: Mapping[str, str] | None = None
) -> list[Path]:
    """Returns the packed bases of a row, in the order of `Row.all_bases`. Bases in an object
    store are downloaded to the folder `cache_folder`, once for all processes, and
    compared with the SHA-256 in their entries. Messages name a base as in `places`, or as
    in its entry.

    Raises:
        MissingBaseError, RefusedBaseError, DamagedBaseError: if a base is not available.
    """
    bases = row.all_bases
    paths = {base.key: _path(results, base, (places or {}).get(base.key)) for base in bases}
    return [paths[base.key] for base in bases]


def _path(results: _native.Results, base: Base, place: str | None) -> Path:
    key, name = base.key, base.packed_name
    entry = results.done(key)
    place = place or base_place(results, key)
    if entry is None:
        failed = results.failed(key)
        values = {} if failed is None else json.loads(failed)
        if values.get("class") == "refused":
            raise RefusedBaseError(
                f"its base {place} was refused: {values['reason']}; make the plan again for "
                "another base"
            )
        raise MissingBaseError(f"its base {place} is not packed yet; run the plan first")
    location = results.at("packed", name)
    if "://" not in location:
        path = Path(location)
        if not path.is_file():
            raise MissingBaseError(f"its base {place} has lost its packed file; run the plan again")
        return path
    cached = cache_folder() / _CACHED / name
    if cached.is_file():
        return cached
    with locked(f"packed-{key}"):
        if not cached.is_file():
            sha256 = json.loads(entry)["packed_sha256"]
            found = _fetch(location, cached, sha256)
            if found != sha256:
                raise DamagedBaseError(
                    f"its base {place} is damaged: {location} has the SHA-256 {found}, and "
                    f"{sha256} is recorded",
                    key,
                )
    return cached


def _fetch(location: str, path: Path, sha256: str) -> str:
    """Downloads a file to `path` if it has this SHA-256. Returns the SHA-256 that it has."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with unfinished() as folder:
        part = folder / path.name
        _, found = _native.copy_sha256(location, part)
        if found == sha256:
            part.chmod(part.stat().st_mode & 0o444)
            os.replace(part, path)
    return found
