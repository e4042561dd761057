"""The cache of restored files, which are stored by the digest of their bytes."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from .. import _native
from .._checkpoint import unpack
from .._errors import ZstnError
from .._sources import http_options
from .._types import Progress
from ._cache import cache_folder, locked, unfinished

#: Name of every restored file, in a folder named by its SHA-256.
NAME = "model.safetensors"


def restored(packed: str | os.PathLike[str], threads: int = 0, progress: Progress = None) -> Path:
    """Returns the path of the file that `packed` restores. It is unpacked unless this
    same packed file has been unpacked before. The SHA-256 that a packed file records is
    not used to find it in the cache, because the author of the file may have recorded
    the SHA-256 of another file.

    Raises:
        ZstnError: with the code ``"differs"`` if the restored bytes do not have the
            SHA-256 that the packed file records.
    """
    packed = os.path.realpath(packed)
    if (place := _known_place(packed)) is not None:
        return place
    with locked(_identity(packed)):
        if (place := _known_place(packed)) is not None:
            return place
        return _restore(packed, _recorded(packed), threads, progress)


def _known_place(packed: str) -> Path | None:
    """Returns the cached restored file of a packed file; `None` if there is none."""
    digest = _remembered(packed)
    place = None if digest is None else _place(digest)
    return place if place is not None and place.is_file() else None


def _place(digest: str) -> Path:
    return cache_folder() / digest / NAME


def _restore(packed: str, recorded: str | None, threads: int, progress: Progress) -> Path:
    identity = _identity(packed)
    with unfinished() as folder:
        # The name must suit files of all formats.
        part = folder / "restored"
        unpack(packed, part, threads=threads, progress=progress)
        # Unpacking only compares with digests in the file itself. The cache finds files
        # by their SHA-256, so that must be correct.
        with open(part, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if recorded is not None and digest != recorded:
            raise ZstnError(
                f"{packed}: the restored file has the SHA-256 {digest}, but the packed file "
                f"records {recorded}; download it again",
                "differs",
            )
        # All repositories share this file through links, and a program that writes
        # through a link would change it for all of them.
        part.chmod(part.stat().st_mode & 0o444)
        place = _place(digest)
        place.parent.mkdir(exist_ok=True)
        # Another packed file may already have restored the same bytes.
        if not place.is_file():
            os.replace(part, place)
    # The digest is only recorded if the packed file has not changed meanwhile.
    if _identity(packed) == identity:
        _remember(packed, digest)
    return place


def _recorded(packed: str) -> str | None:
    """Returns the SHA-256 of the original that the packed file records; `None` if it
    has none."""
    try:
        reader = _native.Reader(packed, None, http_options(), False, 0)
    except ZstnError:
        # A packed file without an index records none; damage is reported by unpacking.
        return None
    try:
        return reader.original_sha256
    finally:
        reader.close()


def _identity(packed: str) -> str:
    """Returns an identifier of the current version of a file."""
    status = os.stat(packed)
    facts = f"{packed}\0{status.st_size}\0{status.st_mtime_ns}\0{status.st_ctime_ns}\0{status.st_ino}"
    return hashlib.sha256(facts.encode(errors="surrogateescape")).hexdigest()


def _memory(packed: str) -> Path:
    return cache_folder() / ".digests" / _identity(packed)


def _remembered(packed: str) -> str | None:
    """Returns the SHA-256 of the bytes that this packed file restored before."""
    try:
        text = _memory(packed).read_text()
    except OSError:
        return None
    return text if len(text) == 64 and text.isalnum() else None


def _remember(packed: str, digest: str) -> None:
    place = _memory(packed)
    place.parent.mkdir(parents=True, exist_ok=True)
    with unfinished() as folder:
        part = folder / "digest"
        part.write_text(digest)
        os.replace(part, place)
