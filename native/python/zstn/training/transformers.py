"""A callback for ``transformers.Trainer``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._types import Effort
from ._packer import BackgroundPacker
from ._store import PackedCheckpoints

try:
    from transformers import TrainerCallback
except ImportError as error:
    raise ImportError(
        f"zstn.training.transformers needs transformers (`pip install transformers`): {error}"
    ) from error

if TYPE_CHECKING:
    from transformers import TrainerControl, TrainerState, TrainingArguments

#: Names of the Trainer's checkpoints, without the number of steps.
_PREFIX = "checkpoint-"


class PackCheckpoints(TrainerCallback):  # type: ignore[misc]
    """Packs every checkpoint of a ``transformers.Trainer`` in the background:
    ``Trainer(…, callbacks=[PackCheckpoints()])``.

    The newest checkpoints and the best one stay as the Trainer wrote them, so that it can
    resume from the one and load the other. The others are removed once their packed files
    have been verified. A failure is a `RuntimeWarning`, leaves the original, and does not
    stop the training. When the training ends, the callback waits for the last checkpoint.
    A resumed run also packs the checkpoints that the interrupted one had left. A
    checkpoint that the Trainer's ``save_total_limit`` removes before its turn is skipped.

    With several processes, the first one packs, and begins after the first step that
    follows the checkpoint, when all processes have written their files.

    Args:
        folder: folder of the packed checkpoints; by default, ``packed`` in the Trainer's
            ``output_dir``.
        keep_originals: number of newest checkpoints that stay as they are, at least 1;
            `None` removes no originals.
        limit: number of newest packed checkpoints that are kept, besides the best one and
            the bases that they need; by default, ``save_total_limit`` of the Trainer.
        max_chain: the largest number of bases that a delta depends on, 0 to 4. After
            this many deltas, a file is packed whole.
        effort: ``"fast"``, ``"balanced"`` or ``"max"``, as in `zstn.pack`.
        extended: whether frames that only zstn reads are used, as in `zstn.pack`.
        threads: number of threads that pack, or 0 for one per core.
        memory: approximate limit in bytes, or a text such as ``"512M"``.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str] | None = None,
        *,
        keep_originals: int | None = 1,
        limit: int | None = None,
        max_chain: int = 4,
        effort: Effort = "balanced",
        extended: bool = False,
        threads: int = 2,
        memory: int | str | None = None,
    ) -> None:
        self._folder = folder
        self._limit = limit
        self._keep_originals = keep_originals
        self._options: dict[str, Any] = {
            "max_chain": max_chain,
            "effort": effort,
            "extended": extended,
            "threads": threads,
            "memory": memory,
        }
        # Invalid options are refused here instead of at the first checkpoint.
        BackgroundPacker(
            PackedCheckpoints("", **self._options), keep_originals=keep_originals, limit=limit
        )
        self._packer: BackgroundPacker | None = None
        self._pending: Path | None = None

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        if not state.is_world_process_zero:
            return
        if self._packer is not None:
            self._packer.cancel()
        folder = Path(args.output_dir, "packed") if self._folder is None else self._folder
        limit = self._limit
        if limit is None and (args.save_total_limit or 0) > 0:
            limit = args.save_total_limit
        store = PackedCheckpoints(folder, **self._options)
        self._packer = BackgroundPacker(store, keep_originals=self._keep_originals, limit=limit)
        self._protect(state)
        if state.global_step:
            for checkpoint in _checkpoints(Path(args.output_dir), state.global_step):
                self._packer._submit_or_warn(checkpoint)

    def on_save(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        if self._packer is None:
            return
        self._submit_pending()
        self._protect(state)
        self._pending = Path(args.output_dir, f"{_PREFIX}{state.global_step}")
        if args.world_size == 1:
            self._submit_pending()

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        self._submit_pending()

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        if self._packer is not None:
            self._submit_pending()
            self._packer.close()
            self._packer = None

    def _submit_pending(self) -> None:
        if self._pending is not None and self._packer is not None:
            self._packer._submit_or_warn(self._pending)
        self._pending = None

    def _protect(self, state: TrainerState) -> None:
        best = state.best_model_checkpoint
        if self._packer is not None:
            self._packer.protected = None if best is None else Path(best).name


def _checkpoints(folder: Path, last: int) -> list[Path]:
    """Returns the checkpoints in a folder up to a number of steps, in ascending order."""
    found = []
    for path in folder.glob(f"{_PREFIX}*"):
        number = path.name.removeprefix(_PREFIX)
        if number.isdecimal() and int(number) <= last and path.is_dir():
            found.append((int(number), path))
    return [path for _, path in sorted(found)]
