"""The description of a packed checkpoint, stored in its folder as JSON."""

from __future__ import annotations

import json
import os
import re
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from .._errors import ZstnError

#: Name of the description in the folder of a packed checkpoint.
FILE_NAME = "zstn-checkpoint.json"

_FORMAT = "zstn-checkpoint-1"

#: Longest accepted description in bytes; a file of a checkpoint takes about 200.
_MAX_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file of a packed checkpoint."""

    path: str
    """Path of the original, relative to the checkpoint, with ``/`` between its parts."""
    bytes: int
    """Length of the original."""
    sha256: str
    """SHA-256 of the original, in hexadecimal digits."""
    stored: str
    """Path of the stored file, relative to the packed checkpoint; a copy of the original
    if it is `path`."""
    stored_bytes: int
    """Length of the stored file."""
    base: str | None = None
    """Name of the packed checkpoint that contains the base of this delta, at the same
    path unless both checkpoints are single files or `base_path` is set."""
    lone: int = 0
    """Number of consecutive checkpoints, ending with this one, that stored the file
    without the checkpoint before because such a delta would not have been smaller."""
    base_path: str | None = None
    """Path of the original of the base, if the base is another file of this checkpoint."""


@dataclass(frozen=True, slots=True)
class PackedCheckpoint:
    """A packed checkpoint: one folder of a store."""

    name: str
    """Name of its folder in the store."""
    original: str
    """Name of the file or folder that was packed."""
    number: int
    """Position in the order in which the checkpoints were packed."""
    is_file: bool
    """Whether the original is a single file instead of a folder."""
    files: tuple[StoredFile, ...]

    @property
    def original_bytes(self) -> int:
        return sum(file.bytes for file in self.files)

    @property
    def packed_bytes(self) -> int:
        return sum(file.stored_bytes for file in self.files)

    @property
    def bases(self) -> frozenset[str]:
        """The names of the checkpoints that contain bases of its deltas."""
        return frozenset(file.base for file in self.files if file.base is not None)

    def base_of(self, file: StoredFile, is_file: bool) -> StoredFile | None:
        """Returns the base of a file of this checkpoint or of another one."""
        if file.base_path is not None:
            return self.file(file.base_path)
        return self.counterpart(file.path, is_file)

    def counterpart(self, path: str, is_file: bool) -> StoredFile | None:
        """Returns the file that can be the base of a file of another checkpoint: the one
        at the same path, or the only one if both checkpoints are single files, whose names
        differ."""
        if is_file != self.is_file:
            return None
        return self.files[0] if is_file and self.files else self.file(path)

    def file(self, path: str) -> StoredFile | None:
        return next((file for file in self.files if file.path == path), None)

    def write(self, folder: Path) -> None:
        """Writes the description to the folder, and syncs it to disk."""
        content = {"format": _FORMAT, **asdict(self)}
        del content["name"]
        with open(folder / FILE_NAME, "w", encoding="utf-8") as file:
            json.dump(content, file, indent=1)
            file.flush()
            os.fsync(file.fileno())


def read(folder: Path) -> PackedCheckpoint:
    """Reads the description of a packed checkpoint.

    Raises:
        FileNotFoundError: if the folder has none.
        ZstnError: with the code ``"malformed"``, if it is not valid.
    """
    path = folder / FILE_NAME
    with open(path, "rb") as file:
        content = file.read(_MAX_BYTES + 1)
    if len(content) > _MAX_BYTES:
        raise _malformed(path, f"it is longer than {_MAX_BYTES} bytes")
    try:
        fields = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise _malformed(path, f"it is not JSON: {error}") from None
    if not isinstance(fields, dict) or fields.get("format") != _FORMAT:
        raise _malformed(path, f"its `format` is not {_FORMAT!r}")
    try:
        return PackedCheckpoint(
            folder.name,
            _name(fields["original"]),
            _number(fields["number"]),
            fields["is_file"] is True,
            tuple(map(_file, fields["files"])),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise _malformed(path, f"a field is missing or invalid: {error}") from None


def check_path(path: str, checkpoint: Path) -> None:
    """Refuses a path that a description cannot contain.

    Raises:
        ZstnError: with the code ``"unsupported"``.
    """
    try:
        path.encode()
        _path(path)
    except ValueError:
        raise ZstnError(
            f"{checkpoint}: the name {path!r} cannot be stored, because it is not valid on all "
            "systems: rename the file",
            "unsupported",
        ) from None


def _file(fields: Any) -> StoredFile:
    base, base_path = fields["base"], fields["base_path"]
    if re.fullmatch("[0-9a-f]{64}", fields["sha256"]) is None:
        raise ValueError(f"{fields['sha256']!r} is not a SHA-256")
    return StoredFile(
        _path(fields["path"]),
        _number(fields["bytes"]),
        fields["sha256"],
        _path(fields["stored"]),
        _number(fields["stored_bytes"]),
        None if base is None else _name(base),
        _number(fields["lone"]),
        None if base_path is None else _path(base_path),
    )


def _number(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise ValueError(f"{value!r} is not a number")
    return value


def _path(value: Any) -> str:
    """Returns a relative path that does not leave its folder."""
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a path")
    parts = PurePosixPath(value).parts
    if not parts or value != "/".join(parts) or any(map(_is_unsafe, parts)):
        raise ValueError(f"{value!r} is not a path inside the checkpoint")
    return value


def _name(value: Any) -> str:
    if "/" in _path(value):
        raise ValueError(f"{value!r} is not the name of a file or folder")
    return value


def _is_unsafe(part: str) -> bool:
    return part in ("/", "..") or any(letter in part for letter in "\\:\0")


def _malformed(path: Path, reason: str) -> ZstnError:
    return ZstnError(f"{path} does not describe a packed checkpoint: {reason}", "malformed")
