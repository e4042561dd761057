"""Reports on the state of a plan, based on the entries of its results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from zstn import _native

from ._row import Row, unique
from ._store import keys, read, state


@dataclass(frozen=True)
class FailedRows:
    """Rows that failed for the same reason."""

    failure_class: str
    reason: str
    files: int
    #: One of these rows.
    example: str


@dataclass(frozen=True)
class Report:
    """Totals of a plan. Once all rows are done, ``original_bytes`` is the sum of
    ``packed_bytes`` and of the savings."""

    repositories: int
    files: int
    original_bytes: int
    #: Number of rows with different keys, which are the units of work.
    unique_files: int
    unique_bytes: int
    done_files: int
    done_bytes: int
    #: Number of files that are stored as deltas.
    differences: int
    packed_bytes: int
    #: Bytes saved by storing equal files once.
    saved_by_deduplication: int
    #: Bytes saved by storing files as deltas.
    saved_by_base: int
    #: Bytes saved by packing the other files.
    saved_by_coding: int
    #: Rows that are neither done nor failed.
    left_files: int
    left_bytes: int
    failed_files: int
    failed_bytes: int
    #: Rows that are recorded as done but whose packed file is missing.
    lost_files: int
    lost_bytes: int
    failed: list[FailedRows] = field(default_factory=list)
    #: Reasons why packed files are missing, each with one file.
    lost: dict[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Returns the report as plain values, as ``--json`` prints it."""
        values = asdict(self)
        saved = {
            name: values.pop(f"saved_by_{name}")
            for name in ("deduplication", "base", "coding")
        }
        values["saved"] = saved
        for failed in values["failed"]:
            failed["class"] = failed.pop("failure_class")
        return values

    def __str__(self) -> str:
        saved = self.saved_by_deduplication + self.saved_by_base + self.saved_by_coding
        lines = [
            ("files", self.files, self.original_bytes),
            ("different files", self.unique_files, self.unique_bytes),
            ("done", self.done_files, self.done_bytes),
            ("packed", self.done_files, self.packed_bytes),
            ("saved by deduplication", None, self.saved_by_deduplication),
            ("saved by base", self.differences, self.saved_by_base),
            ("saved by coding", self.done_files - self.differences, self.saved_by_coding),
            ("saved", None, saved),
            ("left", self.left_files, self.left_bytes),
            ("failed", self.failed_files, self.failed_bytes),
        ]
        if self.lost_files:
            lines.append(("lost", self.lost_files, self.lost_bytes))
        text = [
            f"{name:<24}{'' if count is None else f'{count:,}':>12}{size:>24,} bytes"
            for name, count, size in lines
        ]
        for failed in self.failed:
            files = "file" if failed.files == 1 else "files"
            text.append(
                f"{failed.failure_class}: {failed.files} {files}, {failed.example}: {failed.reason}"
            )
        text += [f"lost: {place}: {reason}; run the plan again" for place, reason in self.lost.items()]
        return "\n".join(text)


def report(rows: Sequence[Row], store: str) -> Report:
    """Summarises a plan's entries in a store, and compares them with a listing of the
    packed files. No packed file is read.

    Raises:
        ZstnError: if the store contains no results.
    """
    results = _native.Results(store, existing=True)
    pieces = unique(rows)
    wanted = {row.key for row in pieces}
    found = state(results, pieces)
    done, gone = found.done, found.lost
    failed = read(
        results.failed, (wanted & keys(results, "failed")) - done.keys() - gone.keys()
    )
    # Copies of a file that is not packed do not save anything.
    copies = sum(row.size for row in rows if row.key in done)
    copies -= sum(row.size for row in pieces if row.key in done)
    packed = {row.key: done[row.key]["packed_size"] for row in pieces if row.key in done}
    based = [row for row in pieces if row.key in done and row.bases]
    plain = [row for row in pieces if row.key in done and not row.bases]
    left = [
        row
        for row in pieces
        if row.key not in done and row.key not in failed and row.key not in gone
    ]
    lost = [row for row in pieces if row.key in gone]
    refused = [row for row in pieces if row.key in failed]
    return Report(
        repositories=len({row.repo for row in rows}),
        files=len(rows),
        original_bytes=sum(row.size for row in rows),
        unique_files=len(pieces),
        unique_bytes=sum(row.size for row in pieces),
        done_files=len(packed),
        done_bytes=sum(row.size for row in based + plain),
        differences=len(based),
        packed_bytes=sum(packed.values()),
        saved_by_deduplication=copies,
        saved_by_base=sum(row.size - packed[row.key] for row in based),
        saved_by_coding=sum(row.size - packed[row.key] for row in plain),
        left_files=len(left),
        left_bytes=sum(row.size for row in left),
        failed_files=len(refused),
        failed_bytes=sum(row.size for row in refused),
        lost_files=len(lost),
        lost_bytes=sum(row.size for row in lost),
        failed=_by_reason(refused, failed),
        lost={row.place: gone[row.key] for row in lost},
    )


def _by_reason(rows: Sequence[Row], entries: dict[str, dict[str, Any]]) -> list[FailedRows]:
    """Returns failures grouped by class and reason, most frequent first."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        entry = entries[row.key]
        groups.setdefault((entry["class"], entry["reason"]), []).append(row)
    found = [
        FailedRows(failure_class, reason, len(group), group[0].place)
        for (failure_class, reason), group in groups.items()
    ]
    return sorted(found, key=lambda group: (group.failure_class, -group.files, group.example))
