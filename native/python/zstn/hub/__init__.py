"""Checkpoints of model hubs, of which some files are packed, as other libraries
expect them.

>>> from zstn.hub import snapshot_download
>>> from transformers import AutoModel
>>> model = AutoModel.from_pretrained(snapshot_download("OWNER/NAME"))
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ._cache import cache_folder
from ._download import download, download_if_packed
from ._local import list_local
from ._names import is_index, refuse_deltas, restored_index, restored_name, restored_names
from ._request import Request, Tree
from ._restore import restored
from ._view import View

__all__ = ["cache_folder", "shadow_folder", "snapshot_download"]

_PathLike = str | os.PathLike[str]
_Patterns = list[str] | str | None


def snapshot_download(
    repo_id: _PathLike,
    *,
    revision: str | None = None,
    repo_type: str | None = None,
    cache_dir: _PathLike | None = None,
    local_files_only: bool = False,
    token: str | bool | None = None,
    allow_patterns: _Patterns = None,
    ignore_patterns: _Patterns = None,
    threads: int = 0,
    progress: Any = None,
) -> str:
    """Downloads a revision of a repository like
    ``huggingface_hub.snapshot_download`` and returns a folder with its files,
    in which every ``X.zstn`` appears as the ``X.safetensors`` that it restores,
    and an index with the names of the restored files. Any program can load
    from it.

    Restored files are in the folder of `cache_folder`, each under the SHA-256
    of its bytes, so that repositories share them; other files are links into
    the cache of huggingface_hub, which stays as it is. Of weights that the
    repository has both plain and packed, only the packed ones are downloaded.
    Without packed files the result is the hub's own snapshot.

    Args:
        repo_id: a repository such as ``"OWNER/NAME"``, or a local folder.
        cache_dir: the cache of huggingface_hub.
        token: for the hub, as in huggingface_hub.
        allow_patterns, ignore_patterns: files to download. A pattern for
            ``.safetensors`` files also means the packed ones that restore them.
        threads: the threads that decode; 0 shares one per core with the process.
        progress: see `zstn.pack`; called for every file that is restored.

    Raises:
        ZstnError: with the code ``"needs_base"`` if a file is the difference
            (``.z4dm``) from another checkpoint: it does not say from which.
    """
    request = Request(
        os.fspath(repo_id), revision, repo_type, cache_dir, local_files_only, token,
        allow_patterns, ignore_patterns,
    )  # fmt: skip
    tree = list_local(request) if os.path.isdir(repo_id) else download(request)
    refuse_deltas(request.repo_id, tree.names)
    if not tree.has_packed:
        return str(tree.folder)
    return _show(tree, "snapshots", lambda path: restored(path, threads, progress))


def shadow_folder(
    repo_or_folder: _PathLike,
    *,
    revision: str | None = None,
    repo_type: str | None = None,
    cache_dir: _PathLike | None = None,
    local_files_only: bool = False,
    token: str | bool | None = None,
    allow_patterns: _Patterns = None,
    ignore_patterns: _Patterns = None,
) -> str | None:
    """Returns a folder in which every packed ``X.zstn`` of a repository or of a
    local folder appears under the name ``X.safetensors``, still packed, next to
    links to the other files. `None` if nothing is packed.

    Its weights can only be opened by what reads packed files: `zstn.safe_open`,
    and safetensors after `zstn.enable_hf`. They are recognised by their first
    bytes. Weights in formats other than safetensors are not downloaded. See
    `snapshot_download` for the arguments.
    """
    request = Request(
        os.fspath(repo_or_folder), revision, repo_type, cache_dir, local_files_only, token,
        allow_patterns, ignore_patterns,
    )  # fmt: skip
    if os.path.isdir(repo_or_folder):
        tree: Tree | None = list_local(request)
    else:
        tree = download_if_packed(request)
    if tree is None or not tree.has_packed:
        return None
    return _show(tree, "shadow", lambda path: path)


def _show(tree: Tree, kind: str, resolve: Callable[[Path], Path]) -> str:
    """Shows files in a folder of our own, packed ones as `resolve` says, and
    returns its path."""
    view = View(cache_folder() / kind / tree.view_name)
    hidden = restored_names(tree.names)
    for name in tree.names:
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
