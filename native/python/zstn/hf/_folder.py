"""Folders that appear when they are complete."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .._errors import ZstnError

#: What huggingface_hub keeps in a folder that it downloads to.
_DOWNLOADED = Path(".cache", "huggingface")


@contextmanager
def new_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Gives a hidden folder that gets the name `path` in the end. It is removed
    after an exception.

    Raises:
        ZstnError: if there is something at `path` but an empty folder.
    """
    target = Path(path)
    if target.exists() and not _is_empty(target):
        raise ZstnError(f"{path} exists already; choose another name, or remove it first", "exists")
    if target.is_symlink() or target.is_mount() or target.resolve() == Path.cwd():
        raise ZstnError(f"{path} cannot be replaced; name a folder to make", "exists")
    parent = target.absolute().parent
    parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{target.name}-", suffix=".part", dir=parent) as part:
        made = Path(part) / "made"
        made.mkdir()
        yield made
        os.replace(made, target)


def check_pulled(path: str | os.PathLike[str]) -> None:
    """Refuses a folder with files that are not an earlier download of
    huggingface_hub: it replaces files by those of the repository.

    Raises:
        ZstnError: if there is such a folder at `path`.
    """
    target = Path(path)
    if target.exists() and not _is_empty(target) and not (target / _DOWNLOADED).is_dir():
        raise ZstnError(f"{path} exists already; choose another name, or remove it first", "exists")


def _is_empty(path: Path) -> bool:
    return path.is_dir() and not any(path.iterdir())


def copy_folder(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
    """Copies a folder with what its links lead to."""
    with new_folder(target) as made:
        shutil.copytree(source, made, dirs_exist_ok=True)
