"""Packs the checkpoints of training runs in the background, each as a delta against the
one before. An original is removed only after its packed file has been verified.

- `zstn.training.transformers.PackCheckpoints` is a callback for ``transformers.Trainer``.
- `zstn.training.lightning.PackedCheckpointIO` is a plugin for Lightning.
- `BackgroundPacker` packs the checkpoints of any other program, for example of
  ``Accelerator.save_state``. `PackedCheckpoints` packs one on the calling thread.
- `restore_checkpoint` restores a packed checkpoint, to resume from it.
"""

from __future__ import annotations

from ._manifest import PackedCheckpoint, StoredFile
from ._packer import BackgroundPacker
from ._store import PackedCheckpoints, restore_checkpoint

__all__ = [
    "BackgroundPacker",
    "PackedCheckpoint",
    "PackedCheckpoints",
    "StoredFile",
    "restore_checkpoint",
]
