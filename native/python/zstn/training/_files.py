"""Files of a checkpoint: listing, digests, copies."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

from .._errors import ZstnError

#: Number of bytes that are read between two checks for cancellation.
_READ_BYTES = 8 << 20

#: Raises an exception if the work has been cancelled.
Check = Callable[[], None]


def listed(checkpoint: Path) -> dict[str, Path]:
    """Returns the files of a checkpoint by their relative path, in ascending order. A
    checkpoint that is a file is its only entry, under its name.

    Raises:
        FileNotFoundError: if the checkpoint does not exist.
        ZstnError: with the code ``"unsupported"``, if it contains a link or a device.
    """
    mode = checkpoint.stat().st_mode
    if stat.S_ISREG(mode):
        return {checkpoint.name: checkpoint}
    found: dict[str, Path] = {}
    folders = [checkpoint]
    while folders:
        with os.scandir(folders.pop()) as entries:
            listing = list(entries)
        for entry in listing:
            path = Path(entry.path)
            if entry.is_dir(follow_symlinks=False):
                folders.append(path)
            elif entry.is_file(follow_symlinks=False):
                found[path.relative_to(checkpoint).as_posix()] = path
            else:
                raise ZstnError(
                    f"{path} is a link or a device, which a packed checkpoint cannot contain: "
                    "replace it with the file",
                    "unsupported",
                )
    return dict(sorted(found.items()))


def sha256(path: Path, check: Check) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while content := file.read(_READ_BYTES):
            check()
            digest.update(content)
    return digest.hexdigest()


def copy(source: Path, target: Path) -> None:
    """Copies a file and syncs the copy to disk."""
    shutil.copyfile(source, target)
    with open(target, "rb+") as file:
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Syncs the entries of a folder to disk, where the system supports it."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def temporary(path: Path) -> Path:
    """Returns an unused path in the folder of `path` for its unfinished content. Removes
    the file or folder that an interrupted process has left under this name."""
    found = path.with_name(f".{path.name}.part")
    remove(found)
    return found


def remove(path: Path) -> None:
    """Removes a file or a folder, if it exists."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
