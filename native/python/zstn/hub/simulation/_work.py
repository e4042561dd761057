"""The resources that a task of a simulated job needs."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ._settings import Speeds, Store


@dataclass(frozen=True)
class Work:
    """The work of packing one file."""

    original_bytes: int
    packed_bytes: int
    #: Bytes to read: the original, and the base if there is one.
    read_bytes: int
    #: Seconds of one processor.
    cpu_seconds: float

    def reads(self, store: Store) -> int:
        """Returns the number of read requests."""
        return store.fixed_reads + math.ceil(self.read_bytes / store.read_part_bytes)

    def writes(self, store: Store) -> int:
        """Returns the number of write requests."""
        return store.fixed_writes + math.ceil(self.packed_bytes / store.write_part_bytes)


def work_of(original_bytes: int, speeds: Speeds, base_bytes: int = 0) -> Work:
    """Returns the work on a file at these speeds, with a base of length `base_bytes` if
    that is not 0."""
    has_base = base_bytes > 0
    pack = speeds.pack_with_base if has_base else speeds.pack
    ratio = speeds.ratio_with_base if has_base else speeds.ratio
    # The base is itself packed: its packed file is read and restored.
    cpu_seconds = original_bytes / pack + (original_bytes + base_bytes) / speeds.verify
    return Work(
        original_bytes=original_bytes,
        packed_bytes=round(original_bytes * ratio),
        read_bytes=original_bytes + round(base_bytes * speeds.ratio),
        cpu_seconds=speeds.seconds_per_task + cpu_seconds,
    )
