"""Folders that show packed files under the names of safetensors."""

from __future__ import annotations

import os

from ._download import LeaveOut, download_if_packed
from ._local import list_local
from ._request import Request, Tree
from ._show import show

#: The folder of the cache that they are in.
KIND = "shadow"


def shadow(request: Request, leave_out: LeaveOut | None = None) -> str | None:
    """Returns the shadow of a repository or a local folder; `None` if nothing
    in it is packed. See `download_if_packed` for `leave_out`."""
    if os.path.isdir(request.repo_id):
        tree: Tree | None = list_local(request)
    else:
        tree = download_if_packed(request, leave_out)
    if tree is None or not tree.has_packed:
        return None
    return shadow_of(tree)


def shadow_of(tree: Tree) -> str:
    """Returns the shadow of files that have been found."""
    return show(tree, KIND, lambda path: path)
