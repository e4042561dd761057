"""Output folders that appear only when they are complete."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .._errors import ZstnError

#: A subfolder that huggingface_hub creates in folders that it downloads to.
_DOWNLOADED = Path(".cache", "huggingface")


@contextmanager
def new_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yields a hidden folder that is renamed to `path` at the end. After an exception it
    is removed.

    Raises:
        ZstnError: if `path` exists and is not an empty folder.
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
    """Refuses a folder that contains files and was not created by a download with
    huggingface_hub, as a download would replace its files.

    Raises:
        ZstnError: if `path` is such a folder.
    """
    target = Path(path)
    if target.exists() and not _is_empty(target) and not (target / _DOWNLOADED).is_dir():
        raise ZstnError(f"{path} exists already; choose another name, or remove it first", "exists")


def _is_empty(path: Path) -> bool:
    return path.is_dir() and not any(path.iterdir())


def copy_folder(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
    """Copies a folder, replacing links by the files that they point to."""
    with new_folder(target) as made:
        shutil.copytree(source, made, dirs_exist_ok=True)
