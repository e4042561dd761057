"""Folders in the cache that show the files of a checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ._cache import cache_folder
from ._names import check_name, is_index, restored_index, restored_name, restored_names
from ._request import Tree
from ._view import View


def show(tree: Tree, kind: str, resolve: Callable[[Path], Path]) -> str:
    """Shows files in a folder of this kind and returns its path. Packed files appear
    under the names of their restored files; `resolve` returns the file to show for
    each."""
    view = View(cache_folder() / kind / tree.view_name)
    hidden = restored_names(tree.names)
    for name in tree.names:
        check_name(name)
        path = tree.folder / name
        shown = restored_name(name)
        if shown is None:
            # Files that were not downloaded do not exist.
            if name not in hidden and path.exists():
                view.link(name, path)
        elif is_index(name):
            view.write(shown, restored_index(path.read_bytes()))
        else:
            view.link(shown, resolve(path))
    if not tree.is_commit:
        view.remove_others()
    return str(view.path)
