"""Requests for the files of a repository or a local folder, and the files found for them."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ._names import restored_name, restored_names, restores_other_model


@dataclass(frozen=True, slots=True)
class Request:
    """A revision of a repository, and the options of its download."""

    repo_id: str
    revision: str | None
    repo_type: str | None
    cache_dir: str | os.PathLike[str] | None
    local_files_only: bool
    token: str | bool | None
    allow_patterns: list[str] | str | None
    ignore_patterns: list[str] | str | None


def refuse_missing_folder(request: Request) -> None:
    """Raises `FileNotFoundError` if the request names a folder that does not exist, by a
    path that cannot be the name of a repository."""
    name = request.repo_id
    is_path = name.startswith((".", "~", os.sep)) or name.count("/") > 1
    if is_path and not os.path.isdir(name):
        raise FileNotFoundError(errno.ENOENT, "there is no such folder", name)


def view_name(repo_id: str, commit: str, repo_type: str | None = None) -> str:
    """Returns the name of a folder that shows the files of a commit."""
    kind = "" if repo_type in (None, "model") else f"{repo_type}s--"
    return f"{kind}{repo_id.replace('/', '--')}@{commit}"


@dataclass(frozen=True, slots=True)
class Tree:
    """The files of a folder. Some of `names` may not have been downloaded."""

    folder: Path
    names: list[str]
    view_name: str
    """Name of the folder that shows these files."""
    is_commit: bool
    """Whether the files never change, because they belong to a commit."""
    is_subset: bool = False
    """Whether the folder contains other files that were not requested."""

    @property
    def has_packed(self) -> bool:
        return bool(restored_names(self.names))

    def without_other_models(self) -> Tree:
        """Returns this tree without packed files of other formats than safetensors, which
        must be restored to be read."""
        return replace(self, names=[name for name in self.names if not restores_other_model(name)])


def select(names: Iterable[str], request: Request) -> list[str]:
    """Returns the names that the patterns of a request select. A pattern that matches
    the name of a restored file also selects the packed file."""
    try:
        from huggingface_hub.utils import filter_repo_objects
    except ImportError as error:
        raise ImportError(
            "patterns need huggingface_hub: `pip install huggingface_hub`"
        ) from error
    restored = {name: restored_name(name) or name for name in names}

    def matching(**patterns: Any) -> tuple[set[str], set[str]]:
        return (
            set(filter_repo_objects(restored, **patterns)),
            set(filter_repo_objects(restored, key=restored.__getitem__, **patterns)),
        )

    allowed = set.union(*matching(allow_patterns=request.allow_patterns))
    kept = set.intersection(*matching(ignore_patterns=request.ignore_patterns))
    return [name for name in restored if name in allowed and name in kept]


def list_local(request: Request) -> Tree:
    """Lists the files of a local folder."""
    folder = Path(os.path.realpath(request.repo_id))
    names = [path.relative_to(folder).as_posix() for path in _entries(folder)]
    allow, ignore = request.allow_patterns, request.ignore_patterns
    is_subset = allow is not None or ignore is not None
    if is_subset:
        names = select(names, request)
    view_name = local_view_name(folder, (allow, ignore))
    return Tree(folder, names, view_name, is_commit=False, is_subset=is_subset)


def local_view_name(folder: Path, choice: object) -> str:
    """Returns the name of a folder that shows a selection of a local folder's files."""
    facts = os.fsencode(folder) + repr(choice).encode(errors="surrogateescape")
    return f"{folder.name}@{hashlib.sha256(facts).hexdigest()[:16]}"


def _entries(folder: Path) -> list[Path]:
    """Returns the files below a folder. A link to a folder counts as a file, so that
    cycles are not followed."""
    found = []
    for entry in sorted(folder.iterdir()):
        if entry.name == ".git":
            continue
        if entry.is_dir() and not entry.is_symlink():
            found += _entries(entry)
        elif entry.exists():
            found.append(entry)
    return found
