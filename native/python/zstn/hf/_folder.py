"""Folders that appear when they are complete."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .._errors import ZstnError


@contextmanager
def new_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Gives a hidden folder that gets the name `path` in the end. It is removed
    after an exception.

    Raises:
        ZstnError: if there is something at `path` but an empty folder.
    """
    target = Path(path)
    if target.exists() and not (target.is_dir() and not any(target.iterdir())):
        raise ZstnError(f"{path} exists already; choose another name, or remove it first", "exists")
    parent = target.absolute().parent
    parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{target.name}-", suffix=".part", dir=parent) as part:
        made = Path(part) / "made"
        made.mkdir()
        yield made
        os.replace(made, target)


def copy_folder(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
    """Copies a folder with what its links lead to."""
    with new_folder(target) as made:
        shutil.copytree(source, made, dirs_exist_ok=True)
