"""The cache folder for restored files, and its locks."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

#: Age in seconds after which an unfinished file counts as abandoned.
_ABANDONED_SECONDS = 24 * 3600


def cache_folder() -> Path:
    """Returns the folder for restored files: ``ZSTN_CACHE``, or by default ``zstn`` in
    the folder of huggingface_hub (``HF_HOME``, or ``huggingface`` in
    ``XDG_CACHE_HOME``, or ``~/.cache/huggingface``)."""
    own = os.environ.get("ZSTN_CACHE")
    if own:
        return _absolute(own)
    home = os.environ.get("HF_HOME")
    if not home:
        home = os.path.join(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "huggingface")
    return _absolute(home) / "zstn"


def _absolute(path: str) -> Path:
    return Path(os.path.abspath(os.path.expandvars(os.path.expanduser(path))))


@contextlib.contextmanager
def unfinished() -> Iterator[Path]:
    """Yields a temporary folder for output that is renamed when it is complete, and
    removes the folder afterwards. Also removes folders that killed processes left over
    a day ago."""
    parent = cache_folder() / ".incomplete"
    parent.mkdir(parents=True, exist_ok=True)
    oldest = time.time() - _ABANDONED_SECONDS
    for entry in parent.iterdir():
        with contextlib.suppress(OSError):
            if entry.stat().st_mtime < oldest:
                shutil.rmtree(entry, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=parent) as folder:
        yield Path(folder)


@contextlib.contextmanager
def locked(name: str) -> Iterator[None]:
    """Holds the lock with this name, after waiting for other processes and threads that
    hold it. On a file system without locks this does nothing; the guarded work may then
    be done twice, with the same result."""
    folder = cache_folder() / ".locks"
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / f"{name}.lock", "ab") as file:
        try:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        except (ImportError, OSError):
            pass
        # Closing the file releases the lock.
        yield
