"""Checkpoints from model hubs that contain packed files, as folders that other
libraries can load.

>>> from zstn.hub import snapshot_download
>>> from transformers import AutoModel
>>> model = AutoModel.from_pretrained(snapshot_download("OWNER/NAME"))
"""

from __future__ import annotations

import os

from .._types import Progress
from ._cache import cache_folder
from ._download import download
from ._names import refuse_deltas
from ._restore import restored
from ._tree import Request, list_local, refuse_missing_folder
from ._view import shadow, show

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
    progress: Progress = None,
) -> str:
    """Downloads a revision of a repository like ``huggingface_hub.snapshot_download``,
    and returns a folder with its files that any program can load. In it, every
    ``X.zstn`` appears as the ``X.safetensors`` that it restores, every ``X.gguf.zstn`` as
    ``X.gguf``, and so on for other formats. An index contains the names of the restored
    files.

    Restored files are in the folder `cache_folder`, under the SHA-256 of their bytes, so
    that repositories share them; other files are links into the cache of
    huggingface_hub, which is not changed. If the repository contains weights both plain
    and packed, only the packed ones are downloaded. If it contains no packed files, the
    result is the hub's own snapshot, or the local folder itself.

    Args:
        repo_id: a repository such as ``"OWNER/NAME"``, or a local folder.
        cache_dir: the cache of huggingface_hub.
        token: token for the hub, as in huggingface_hub.
        allow_patterns, ignore_patterns: files to download. A pattern also selects the
            packed files that restore the files it matches.
        threads: number of threads that decode; 0 shares one thread per core with the
            whole process.
        progress: see `zstn.pack`; called for every file that is restored.

    Raises:
        ZstnError: with the code ``"needs_base"`` if a file is a delta (``.z4dm``), which
            does not name its base.
    """
    request = Request(
        os.fspath(repo_id), revision, repo_type, cache_dir, local_files_only, token,
        allow_patterns, ignore_patterns,
    )  # fmt: skip
    refuse_missing_folder(request)
    tree = list_local(request) if os.path.isdir(repo_id) else download(request)
    refuse_deltas(request.repo_id, tree.names)
    if not tree.has_packed and not tree.is_subset:
        return str(tree.folder)
    return show(tree, "snapshots", lambda path: restored(path, threads, progress))


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
    """Returns a folder with links to the files of a repository or of a local folder.
    The link to each packed file ``X.zstn`` has the name ``X.safetensors``; its content
    stays packed. Returns `None` if no file is packed.

    These weights can only be opened by code that reads packed files, which recognises
    them by their first bytes: `zstn.safe_open`, and safetensors after `zstn.enable_hf`.
    Weights in other formats are not downloaded from folders that contain safetensors
    weights. Packed files that restore other formats, such as ``X.gguf.zstn``, are left
    out: `snapshot_download` restores them. See `snapshot_download` for the arguments.
    """
    request = Request(
        os.fspath(repo_or_folder), revision, repo_type, cache_dir, local_files_only, token,
        allow_patterns, ignore_patterns,
    )  # fmt: skip
    refuse_missing_folder(request)
    return shadow(request)
