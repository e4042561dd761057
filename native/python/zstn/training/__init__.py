"""Packed checkpoints of training runs: each a delta against the one before, packed in the
background, with originals removed once the packed ones have been verified.

- `zstn.training.transformers.PackCheckpoints` is a callback for ``transformers.Trainer``.
- `zstn.training.lightning.PackedCheckpointIO` is a plugin for Lightning.
- `BackgroundPacker` works with the checkpoints of any program, such as those of
  ``Accelerator.save_state``, and `PackedCheckpoints` packs them one by one.
- `restore_checkpoint` restores one of them, to resume from it.
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
