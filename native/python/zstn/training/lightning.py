"""A plugin for Lightning."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._types import Effort
from ._packer import BackgroundPacker
from ._store import PackedCheckpoints

# Lightning has two packages with different classes. A trainer accepts only the classes of its own package.
try:
    if "pytorch_lightning" in sys.modules:
        from pytorch_lightning.plugins.io import TorchCheckpointIO
    else:
        from lightning.pytorch.plugins.io import TorchCheckpointIO
except ImportError:
    try:
        from pytorch_lightning.plugins.io import TorchCheckpointIO
    except ImportError as error:
        raise ImportError(
            f"zstn.training.lightning needs Lightning (`pip install lightning`): {error}"
        ) from error

if TYPE_CHECKING:
    _Path = str | os.PathLike[str]


class PackedCheckpointIO(TorchCheckpointIO):  # type: ignore[misc]
    """Packs every checkpoint of a Lightning trainer in the background:
    ``Trainer(…, plugins=[PackedCheckpointIO()])``.

    A checkpoint that exists only packed is loaded by its former path, as in
    ``trainer.fit(model, ckpt_path="checkpoints/epoch=3-step=400.ckpt")``. When Lightning
    removes a checkpoint, its packed one is removed, too, unless it is a base that is still
    needed.

    Args:
        folder: folder of the packed checkpoints; by default, ``packed`` in the folder of
            the checkpoints.

    See `zstn.training.transformers.PackCheckpoints` for the other arguments, and for failures.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str] | None = None,
        *,
        keep_originals: int | None = 1,
        max_chain: int = 4,
        effort: Effort = "balanced",
        extended: bool = False,
        threads: int = 2,
        memory: int | str | None = None,
    ) -> None:
        super().__init__()
        self._folder = folder
        self._keep_originals = keep_originals
        self._options: dict[str, Any] = {
            "max_chain": max_chain,
            "effort": effort,
            "extended": extended,
            "threads": threads,
            "memory": memory,
        }
        self._packers: dict[Path, BackgroundPacker] = {}
        # Invalid options are refused here instead of at the first checkpoint.
        BackgroundPacker(PackedCheckpoints("", **self._options), keep_originals=keep_originals)

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: _Path, storage_options: Any = None
    ) -> None:
        super().save_checkpoint(checkpoint, path, storage_options)
        self._packer(path)._submit_or_warn(path)

    def load_checkpoint(self, path: _Path, *args: Any, **options: Any) -> Any:
        original, store = Path(path), self._store(path)
        if original.exists() or original.name not in store.names():
            return super().load_checkpoint(path, *args, **options)
        with tempfile.TemporaryDirectory(dir=store.folder.parent, prefix=".restored-") as folder:
            restored = store.restore(original.name, Path(folder, original.name))
            return super().load_checkpoint(restored, *args, **options)

    def remove_checkpoint(self, path: _Path) -> None:
        super().remove_checkpoint(path)
        self._packer(path).discard(path)

    def teardown(self) -> None:
        """Waits until all checkpoints are packed."""
        packers, self._packers = self._packers, {}
        for packer in packers.values():
            packer.close()
        super().teardown()

    def _store(self, path: _Path) -> PackedCheckpoints:
        folder = Path(path).absolute().parent / "packed" if self._folder is None else self._folder
        return PackedCheckpoints(folder, **self._options)

    def _packer(self, path: _Path) -> BackgroundPacker:
        store = self._store(path)
        packer = self._packers.get(store.folder)
        if packer is None:
            packer = BackgroundPacker(store, keep_originals=self._keep_originals)
            self._packers[store.folder] = packer
        return packer
