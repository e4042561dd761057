"""Trees as folders of our own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ._cache import cache_folder
from ._names import check_name, is_index, restored_index, restored_name, restored_names
from ._request import Tree
from ._view import View


def show(tree: Tree, kind: str, resolve: Callable[[Path], Path]) -> str:
    """Shows files in a folder of that kind, packed ones under the names of the
    files that they restore and as `resolve` says. Returns its path."""
    view = View(cache_folder() / kind / tree.view_name)
    hidden = restored_names(tree.names)
    for name in tree.names:
        check_name(name)
        path = tree.folder / name
        shown = restored_name(name)
        if shown is None:
            # What was left out of the download is missing.
            if name not in hidden and path.exists():
                view.link(name, path)
        elif is_index(name):
            view.write(shown, restored_index(path.read_bytes()))
        else:
            view.link(shown, resolve(path))
    if not tree.is_commit:
        view.remove_others()
    return str(view.path)
