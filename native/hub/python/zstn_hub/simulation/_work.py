"""The files of a hub, and the resources that a task for each of them needs."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from statistics import NormalDist

from ._settings import GB, MB, Speeds, Store

_NORMAL = NormalDist()


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


@dataclass(frozen=True)
class Census:
    """A log-normal distribution of file lengths with an upper limit. docs/simulation.md
    names the sources; the median is an assumption."""

    #: Mean length of a file in bytes, before the upper limit is applied.
    mean_bytes: float = 1 * GB
    median_bytes: float = 120 * MB
    max_bytes: float = 50 * GB
    #: Share of the bytes that belong to copies of other files, which cause no work.
    duplicates: float = 0.032
    #: Share of the bytes that are packed against a base.
    with_base: float = 0.5

    def __post_init__(self) -> None:
        if not 0 < self.median_bytes <= self.mean_bytes <= self.max_bytes:
            raise ValueError("a census needs 0 < median <= mean <= max")
        if not (0 <= self.duplicates < 1 and 0 <= self.with_base <= 1):
            raise ValueError("duplicates must be in [0, 1) and with_base in [0, 1]")

    def lengths(self, count: int, seed: int) -> list[int]:
        """Returns the lengths of `count` files in descending order: one from each of
        `count` equally likely ranges, so that few files represent the whole
        distribution."""
        draw = random.Random(f"lengths {seed}")
        sigma = math.sqrt(2 * math.log(self.mean_bytes / self.median_bytes))
        lengths: list[int] = []
        for index in range(count):
            place = min(max((index + draw.random()) / count, 1e-12), 1 - 1e-12)
            length = self.median_bytes * math.exp(sigma * _NORMAL.inv_cdf(place))
            lengths.append(max(1, round(min(length, self.max_bytes))))
        return sorted(lengths, reverse=True)

    def works(self, count: int, speeds: Speeds, seed: int) -> list[Work]:
        """Returns the tasks for `count` different files, the longest first."""
        draw = random.Random(f"bases {seed}")
        return [
            work_of(length, speeds, length if draw.random() < self.with_base else 0)
            for length in self.lengths(count, seed)
        ]
