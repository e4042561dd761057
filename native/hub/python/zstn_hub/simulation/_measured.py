"""Speeds measured from the outcomes of a run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ._settings import Settings

#: The values read from each outcome.
_NUMBERS = ("original_bytes", "packed_bytes", "seconds")


@dataclass(frozen=True)
class Measured:
    """A straight line fitted to the times of tasks: seconds per task and bytes per
    second, both including transfers."""

    seconds_per_task: float
    bytes_per_second: float
    ratio: float
    tasks: int

    def settings(self, settings: Settings) -> Settings:
        """Returns `settings` with measured values instead of assumptions. The measured
        time of packing includes comparing and the transfers of a single task; the
        limits that all tasks share do not change."""
        speeds = replace(
            settings.speeds,
            pack=self.bytes_per_second,
            pack_with_base=self.bytes_per_second,
            verify=float("inf"),
            ratio=self.ratio,
            seconds_per_task=self.seconds_per_task,
        )
        store = replace(settings.store, latency=0.0, stream_bytes_per_second=float("inf"))
        return replace(settings, speeds=speeds, store=store)


def read_measured(path: Path) -> Measured:
    """Reads the output of ``python -m zstn_hub run --json``.

    Raises:
        ValueError: if the file contains anything else.
    """
    rows: list[Mapping[str, Any]] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        try:
            event = json.loads(line)
            if event["event"] == "row" and event["state"] == "packed":
                rows.append({name: float(event[name]) for name in _NUMBERS})
        except (KeyError, TypeError, ValueError):
            raise ValueError(
                f"{path}, line {number}: this is not output of `run --json`"
            ) from None
    return fit(rows)


def fit(rows: Iterable[Mapping[str, Any]]) -> Measured:
    """Fits the line by least squares.

    Raises:
        ValueError: if there are fewer than two different lengths, which do not determine
            the time per byte.
    """
    rows = [row for row in rows if row["original_bytes"]]
    points = [(float(row["original_bytes"]), float(row["seconds"])) for row in rows]
    if len({size for size, _ in points}) < 2:
        raise ValueError("tasks of two different lengths are needed to measure the time per byte")
    mean_size = sum(size for size, _ in points) / len(points)
    mean_seconds = sum(seconds for _, seconds in points) / len(points)
    spread = sum((size - mean_size) ** 2 for size, _ in points)
    slope = sum((size - mean_size) * (seconds - mean_seconds) for size, seconds in points) / spread
    # Noise on small files can make a coefficient negative. All time is then attributed
    # to the other one.
    slope = max(slope, 1e-15)
    start = mean_seconds - slope * mean_size
    if start < 0:
        start, slope = 0.0, mean_seconds / mean_size
    packed = sum(float(row["packed_bytes"]) for row in rows)
    return Measured(start, 1 / slope, packed / sum(size for size, _ in points), len(points))
