"""Shadow folders, which show packed files under the names of safetensors files."""

from __future__ import annotations

import os

from ._download import LeaveOut, download_if_packed
from ._local import list_local
from ._request import Request, Tree
from ._show import show

#: Name of the cache's subfolder for shadow folders.
KIND = "shadow"


def shadow(request: Request, leave_out: LeaveOut | None = None) -> str | None:
    """Returns the shadow folder of a repository or a local folder; `None` if it
    contains no packed files. See `download_if_packed` for `leave_out`."""
    if os.path.isdir(request.repo_id):
        tree: Tree | None = list_local(request)
    else:
        tree = download_if_packed(request, leave_out)
    if tree is None or not tree.has_packed:
        return None
    return shadow_of(tree)


def shadow_of(tree: Tree) -> str:
    """Returns the shadow folder of the given files."""
    return show(tree, KIND, lambda path: path)
