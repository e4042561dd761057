"""Folders that show files under other names: packed files under the names of the files that
they restore."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from ._cache import cache_folder, unfinished
from ._download import LeaveOut, download_if_packed
from ._names import check_name, is_index, restored_index, restored_name, restored_names
from ._tree import Request, Tree, list_local


class View:
    """A folder of links and small files. Every entry appears atomically, and an entry
    that is already correct is not touched, so several processes may fill the same
    folder while others read it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._names: set[str] = set()
        path.mkdir(parents=True, exist_ok=True)

    def link(self, name: str, target: str | os.PathLike[str]) -> None:
        """Shows the file `target` as `name`, a path relative to the folder with ``/``
        as separator."""
        target = os.path.abspath(target)
        place = self._place(name)
        if place.is_symlink() and os.readlink(place) == target:
            return

        def make(part: Path) -> None:
            try:
                os.symlink(target, part)
            except (OSError, NotImplementedError):
                # Links need a privilege on Windows.
                _copy(target, part)

        self._replace(place, make)

    def write(self, name: str, data: bytes) -> None:
        """Creates a file with these bytes."""
        place = self._place(name)
        with contextlib.suppress(OSError):
            if not place.is_symlink() and place.read_bytes() == data:
                return
        self._replace(place, lambda part: part.write_bytes(data))

    def remove_others(self) -> None:
        """Removes all entries that have not been added through this object."""
        for folder, folders, files in os.walk(self.path, topdown=False):
            for entry in [*files, *folders]:
                place = Path(folder, entry)
                if place.relative_to(self.path).as_posix() in self._names:
                    continue
                with contextlib.suppress(OSError):
                    if place.is_dir() and not place.is_symlink():
                        # This fails while the folder is not empty.
                        place.rmdir()
                    else:
                        place.unlink()

    def _place(self, name: str) -> Path:
        check_name(name)
        self._names.add(name)
        folder = self.path
        for part in PurePosixPath(name).parts[:-1]:
            folder = folder / part
            # A link may be in the place of a folder. The following steps would write
            # through it into the user's own folder.
            if folder.is_symlink() or folder.is_file():
                folder.unlink(missing_ok=True)
            folder.mkdir(exist_ok=True)
        return self.path / name

    @staticmethod
    def _replace(place: Path, make: Callable[[Path], object]) -> None:
        # The temporary entry is not created next to `place`, because another process
        # may remove unknown entries there.
        with unfinished() as folder:
            part = folder / "entry"
            make(part)
            if place.is_dir() and not place.is_symlink():
                # The place is a folder, from an earlier view, that contains links.
                os.replace(place, folder / "before")
            os.replace(part, place)


def _copy(target: str, part: Path) -> None:
    if os.path.isdir(target):
        shutil.copytree(target, part)
        return
    try:
        os.link(target, part)
    except OSError:
        shutil.copy2(target, part)


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
            # The tree also lists files that were not downloaded.
            if name not in hidden and path.exists():
                view.link(name, path)
        elif is_index(name):
            view.write(shown, restored_index(path.read_bytes()))
        else:
            view.link(shown, resolve(path))
    if not tree.is_commit:
        view.remove_others()
    return str(view.path)


#: Name of the cache's subfolder for shadow folders.
KIND = "shadow"


def shadow(request: Request, leave_out: LeaveOut | None = None) -> str | None:
    """Returns the shadow folder of a repository or a local folder, which shows packed
    files under the names of safetensors files; `None` if there are no packed files. See
    `download_if_packed` for `leave_out`."""
    if os.path.isdir(request.repo_id):
        tree: Tree | None = list_local(request).without_other_models()
    else:
        tree = download_if_packed(request, leave_out)
    if tree is None or not tree.has_packed:
        return None
    return shadow_of(tree)


def shadow_of(tree: Tree) -> str:
    """Returns the shadow folder of the given files."""
    return show(tree, KIND, lambda path: path)
