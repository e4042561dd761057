"""Requests for files, and the files found for them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from ._names import restored_names


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
