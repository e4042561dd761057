"""The output of a run while it works."""

from __future__ import annotations

import json
import sys
import time
from typing import TextIO

from ._row import Row
from ._run import Summary
from ._task import Outcome

#: Seconds between two lines with totals.
_INTERVAL_SECONDS = 5.0


class Printer:
    """Prints failures when they occur and totals every few seconds; or, with `as_json`,
    an object for every outcome to `output`."""

    def __init__(self, total: int, as_json: bool, output: TextIO) -> None:
        self._total = total
        self._as_json = as_json
        self._output = output
        self._begun = self._printed = time.monotonic()

    def __call__(self, row: Row, outcome: Outcome, summary: Summary) -> None:
        if self._as_json:
            print(json.dumps(_event(row, outcome)), file=self._output, flush=True)
            return
        if outcome.state in ("refused", "retry"):
            print(f"{outcome.state}: {row.place}: {outcome.reason}", file=sys.stderr)
        now = time.monotonic()
        if now - self._printed >= _INTERVAL_SECONDS:
            self._printed = now
            self._totals(summary, now - self._begun)

    def _totals(self, summary: Summary, seconds: float) -> None:
        ended = summary.packed + summary.known + summary.refused + summary.retry
        rate = summary.read_bytes / seconds / 1e6
        print(
            f"{ended:,} of {self._total:,} files, {summary.read_bytes:,} bytes read, "
            f"{rate:.1f} MB/s",
            file=sys.stderr,
        )


def _event(row: Row, outcome: Outcome) -> dict[str, object]:
    return {
        "event": "row",
        "state": outcome.state,
        "key": row.key,
        "repo": row.repo,
        "revision": row.revision,
        "path": row.path,
        "reason": outcome.reason,
        "original_bytes": row.size,
        "read_bytes": outcome.read_bytes,
        "packed_bytes": outcome.packed_bytes,
        "peak_bytes": outcome.peak_bytes,
        "seconds": round(outcome.seconds, 3),
        "node": outcome.node,
    }


def summary_event(summary: Summary) -> dict[str, object]:
    """Returns the last object that a run prints with ``--json``."""
    return {
        "event": "summary",
        "packed": summary.packed,
        "known": summary.known,
        "refused": summary.refused,
        "retry": summary.retry,
        "left": summary.left,
        "lost": summary.lost,
        "read_bytes": summary.read_bytes,
        "packed_bytes": summary.packed_bytes,
        "peak_bytes": summary.peak_bytes,
        "seconds": round(summary.seconds, 3),
    }


def summary_text(summary: Summary) -> str:
    """Returns the last line that a run prints for people."""
    return (
        f"{summary.packed} packed, {summary.known} done before, {summary.refused} refused, "
        f"{summary.retry} to try again, {summary.left} left; {summary.read_bytes:,} bytes read, "
        f"{summary.packed_bytes:,} written in {summary.seconds:.1f} s"
    )
