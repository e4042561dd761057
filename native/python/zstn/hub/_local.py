"""Checkpoints in local folders."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from ._names import with_packed
from ._request import Request, Tree


def list_local(request: Request) -> Tree:
    """Lists the files of a local folder."""
    folder = Path(os.path.realpath(request.repo_id))
    names = [path.relative_to(folder).as_posix() for path in _entries(folder)]
    allow, ignore = with_packed(request.allow_patterns), with_packed(request.ignore_patterns)
    is_subset = allow is not None or ignore is not None
    if is_subset:
        try:
            from huggingface_hub.utils import filter_repo_objects
        except ImportError as error:
            raise ImportError(
                "patterns need huggingface_hub: `pip install huggingface_hub`"
            ) from error
        names = list(filter_repo_objects(names, allow_patterns=allow, ignore_patterns=ignore))
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
