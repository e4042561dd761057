"""Local folders."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from ._download import hub
from ._names import with_packed
from ._request import Request, Tree


def list_local(request: Request) -> Tree:
    """Returns the files of a local folder."""
    folder = Path(os.path.realpath(request.repo_id))
    names = [path.relative_to(folder).as_posix() for path in _entries(folder)]
    allow, ignore = with_packed(request.allow_patterns), with_packed(request.ignore_patterns)
    if allow is not None or ignore is not None:
        hub()
        from huggingface_hub.utils import filter_repo_objects

        names = list(filter_repo_objects(names, allow_patterns=allow, ignore_patterns=ignore))
    facts = os.fsencode(folder) + repr((allow, ignore)).encode(errors="surrogateescape")
    view_name = f"{folder.name}@{hashlib.sha256(facts).hexdigest()[:16]}"
    return Tree(folder, names, view_name, is_commit=False)


def _entries(folder: Path) -> list[Path]:
    """Returns the files below a folder. A link to a folder is an entry itself,
    so that no circle is followed."""
    found = []
    for entry in sorted(folder.iterdir()):
        if entry.name == ".git":
            continue
        if entry.is_dir() and not entry.is_symlink():
            found += _entries(entry)
        elif entry.exists():
            found.append(entry)
    return found
