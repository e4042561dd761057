"""Packing of checkpoints in the background of a training run."""

from __future__ import annotations

import atexit
import os
import queue
import threading
import warnings
from collections.abc import Callable
from pathlib import Path

from .. import _native
from .._errors import ZstnError
from .._log import LOGGER
from .._options import count
from . import _files
from ._store import PackedCheckpoints


class BackgroundPacker:
    """Packs checkpoints in a background thread, and removes originals and old packed
    checkpoints once they are not needed.

    An original is removed only after its packed checkpoint has been verified, if its
    bytes still have the same digests, and if `keep_originals` newer ones exist. After a
    failure, which is reported as a `RuntimeWarning` by the next call, the original is
    left.

    Args:
        store: the store of the packed checkpoints.
        keep_originals: number of newest originals that are left as they are, at least 1.
            `None` leaves all.
        limit: number of newest packed checkpoints that are kept, besides the bases that
            they need and the protected one; `None` keeps all.
    """

    def __init__(
        self,
        store: PackedCheckpoints,
        *,
        keep_originals: int | None = 1,
        limit: int | None = None,
    ) -> None:
        if not isinstance(store, PackedCheckpoints):
            raise TypeError(
                f"store must be a PackedCheckpoints, not {store!r} of type {type(store).__name__}"
            )
        self.store = store
        self._keep_originals = count("keep_originals", keep_originals, 1)
        self.limit = count("limit", limit, 1)
        #: Name of an original that is not removed, nor its packed checkpoint: the best one.
        self.protected: str | None = None
        self._originals: dict[str, Path] = {}
        self._discarded: set[str] = set()
        self._queue: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._failures: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._cancellation = _native.Cancellation()
        self._is_cancelled = False

    def submit(self, checkpoint: str | os.PathLike[str]) -> None:
        """Packs a complete checkpoint after those submitted before. Returns at once. A
        checkpoint that is removed before its turn is skipped.

        Raises:
            FileNotFoundError: if the checkpoint does not exist.
        """
        self._begin()
        path = Path(checkpoint).absolute()
        path.stat()
        self._later(path, lambda: self._pack(path))

    def _submit_or_warn(self, checkpoint: str | os.PathLike[str]) -> None:
        """Does the same as `submit` for a trainer, which a missing checkpoint must not stop:
        it is reported as a `RuntimeWarning`."""
        try:
            self.submit(checkpoint)
        except OSError as error:
            warnings.warn(f"{checkpoint} could not be packed: {error}", RuntimeWarning, stacklevel=2)

    def discard(self, checkpoint: str | os.PathLike[str]) -> None:
        """Removes the packed checkpoint of an original, or keeps it only as long as others
        need it as a base. Returns at once."""
        self._begin()
        path = Path(checkpoint).absolute()
        self._later(path, lambda: self._discard(path))

    def _begin(self) -> None:
        self._report()
        if self._is_cancelled:
            raise ValueError("this packer was cancelled: make a new one")

    def _later(self, checkpoint: Path, work: Callable[[], None]) -> None:
        def watched() -> None:
            try:
                with self._cancellation:
                    work()
            except Exception as error:
                self._fail(checkpoint, error)

        if self._thread is None:
            # The interpreter does not wait for a daemon; `cancel` ends its work at exit.
            self._thread = threading.Thread(target=self._run, name="zstn-checkpoints", daemon=True)
            self._thread.start()
            atexit.register(self.cancel)
        self._queue.put(watched)

    def close(self) -> None:
        """Waits until all submitted checkpoints are packed."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
            self._thread = None
            atexit.unregister(self.cancel)
        self._report()

    def cancel(self) -> None:
        """Stops the work. Checkpoints that are not packed yet are left as they are."""
        self._is_cancelled = True
        self._cancellation.cancel()
        self.close()

    def __enter__(self) -> BackgroundPacker:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.cancel()

    def _report(self) -> None:
        while not self._failures.empty():
            warnings.warn(self._failures.get(), RuntimeWarning, stacklevel=3)

    def _check(self) -> None:
        if self._is_cancelled:
            raise ZstnError("the work was cancelled", "cancelled")

    def _run(self) -> None:
        self.store._check = self._check
        while (work := self._queue.get()) is not None:
            if not self._is_cancelled:
                work()

    def _pack(self, checkpoint: Path) -> None:
        files: list[Path] = []
        try:
            files += _files.listed(checkpoint).values()
            packed = self.store.pack(checkpoint)
        except (OSError, ZstnError):
            # The training program rotates its checkpoints, packed or not.
            if checkpoint.exists() and all(path.exists() for path in files):
                raise
            LOGGER.info("%s was removed before it was packed", checkpoint)
            return
        self._discarded.discard(packed.name)
        self._originals.pop(packed.name, None)
        self._originals[packed.name] = checkpoint
        self._remove_originals()
        self._prune()

    def _discard(self, checkpoint: Path) -> None:
        for name in self.store.names():
            if self.store.get(name).original == checkpoint.name:
                self._discarded.add(name)
        self._prune()

    def _prune(self) -> None:
        if self.limit is None and not self._discarded:
            return
        names = [name for name in self.store.names() if name not in self._discarded]
        protected = self._protected()
        kept = names if self.limit is None else names[-self.limit :]
        self.store.prune([*kept, *(name for name in names if name in protected)])

    def _remove_originals(self) -> None:
        if self._keep_originals is None:
            return
        protected = self._protected()
        for name in list(self._originals)[: -self._keep_originals]:
            if name in protected:
                continue
            original = self._originals.pop(name)
            if original.exists() and not self.store.remove_original(name, original):
                self._failures.put(
                    f"{original} has changed since it was packed, so it was not removed"
                )

    def _protected(self) -> set[str]:
        """Returns the names of the packed checkpoints of the protected original."""
        return {
            name for name, original in self._originals.items() if original.name == self.protected
        }

    def _fail(self, checkpoint: Path, error: Exception) -> None:
        if isinstance(error, ZstnError) and error.code == "cancelled":
            return
        LOGGER.warning("%s could not be packed: %s", checkpoint, error)
        self._failures.put(f"{checkpoint} could not be packed and is left as it is: {error}")
