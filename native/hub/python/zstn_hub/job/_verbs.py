"""The commands of ``python -m zstn_hub``, and their output."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TextIO

from zstn import ZstnError

from . import _report, _restore, _store
from ._listing import check_source, is_hub, mistake
from ._plan import Planner, with_bases
from ._row import Row, load_plan, read_plan, share, write_plan
from ._run import Run, Settings, Summary
from ._task import Outcome
from .executors import Executor

#: Seconds between two lines with totals.
_INTERVAL_SECONDS = 5.0


def plan(options: argparse.Namespace) -> int:
    if options.base and not options.to:
        raise ValueError("--base auto stores sketches with the results: name the folder with --to")
    known = _rows(options.known)
    planner = Planner(options.source, options.effort, options.extended, known, _say)
    rows = planner.rows(options.repo)
    if not rows:
        raise ValueError(mistake(options.source, options.repo))
    if options.base:
        rows = with_bases(rows, planner, options.to, planner.location, known)
    write_plan(options.output, rows)
    contents = len({row.sha256 for row in rows})
    total = sum(row.size for row in rows)
    _say(
        f"{options.output}: {len(rows):,} files of {total:,} bytes, {contents:,} different; "
        f"{len({row.key for row in rows if row.bases}):,} as deltas; "
        f"{planner.read_bytes:,} bytes read"
    )
    return 0


class ConfigurationError(Exception):
    """A configuration error. The command fails again until the error is corrected."""


def run(options: argparse.Namespace) -> int:
    try:
        rows = read_plan(options.plan, options.effort, options.extended)
        if not is_hub(options.source):
            check_source(options.source)
    except (OSError, ValueError, ZstnError) as error:
        raise ConfigurationError(getattr(error, "strerror", None) or str(error)) from error
    if not rows:
        raise ConfigurationError(f"{options.plan} names no files")
    settings = Settings(
        source=options.source,
        store=options.to,
        effort=options.effort,
        extended=options.extended,
        attempts=options.attempts,
        retry_refused=options.retry_failed,
        shard=options.shard,
        threads=options.threads,
        grace=options.grace,
    )
    unread = _repaired(rows, options) if options.check else 0
    # Ray prints messages about lost nodes, which must not mix with the objects of
    # ``--json``.
    with contextlib.redirect_stdout(sys.stderr):
        work = Run(rows, _executor(options), settings)
    work.watch = _Printer(work.total, options.json, sys.stdout)

    def stop(number: int, _: object) -> None:
        # A second signal ends the process at once.
        signal.signal(number, signal.SIG_DFL)
        work.stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    with contextlib.redirect_stdout(sys.stderr):
        summary = work.run()
    print(json.dumps(_summary_event(summary)) if options.json else _summary_text(summary))
    return summary.status if unread == 0 else 3


def _repaired(rows: Iterable[Row], options: argparse.Namespace) -> int:
    """Checks the files of a share that are packed, and lets the run pack damaged ones
    again. Returns the number of files that could not be read."""
    rows = share(rows, *options.shard)
    checked = _store.check(rows, options.to, existing=False)
    _store.repair(rows, options.to, checked.damaged)
    for line in _problems(checked):
        _say(line)
    return len(checked.unread)


def _executor(options: argparse.Namespace) -> Executor:
    if options.executor == "ray":
        # Without Ray, this module cannot be imported.
        ray = importlib.import_module("zstn_hub.job.executors.ray")
        opened: Executor = ray.open(address=options.address, threads=options.threads)
        return opened
    from .executors.local import LocalExecutor

    return LocalExecutor(options.processes, options.memory, options.threads)


def report(options: argparse.Namespace) -> int:
    found = _report.report(_rows(options.plan), options.store)
    print(json.dumps(found.to_dict(), indent=2) if options.json else found)
    return 1 if found.lost_files else 0


def check(options: argparse.Namespace) -> int:
    rows = _rows(options.plan)
    checked = _store.check(rows, options.store)
    repaired = _store.repair(rows, options.store, checked.damaged) if options.repair else 0
    if options.json:
        print(json.dumps({**checked.to_dict(), "repaired": bool(options.repair)}, indent=2))
    else:
        print("\n".join(_check_lines(checked, options.repair, repaired)))
    if checked.unread:
        return 3
    return 1 if checked.damaged else 0


def gc(options: argparse.Namespace) -> int:
    rows = _rows(options.plan)
    if not rows:
        raise ValueError("the plans name no files, so that everything would be removed")
    garbage = _store.find_garbage(options.store, rows)
    if options.delete:
        _store.remove_garbage(options.store, garbage)
    if options.json:
        print(json.dumps({**garbage.to_dict(), "deleted": bool(options.delete)}, indent=2))
        return 0
    for name, length in garbage.packed.items():
        print(f"packed/{name} {length:,} bytes")
    for name in garbage.entries:
        print(name)
    for name, length in garbage.unfinished.items():
        print(f"{name} {length:,} bytes, unfinished for a day")
    for name, count in garbage.needed.items():
        print(f"packed/{name} stays: no plan names it, but {count} deltas need it")
    does = "removed" if options.delete else "would be removed; use --delete to remove them"
    print(f"{garbage.freed_bytes:,} bytes in {len(garbage.packed):,} packed files {does}")
    return 0


def restore(options: argparse.Namespace) -> int:
    chosen = [row for row in _rows(options.plan) if _is_chosen(row, options.only)]
    if not chosen:
        raise ValueError("no plan contains the requested files")
    failed = 0
    for row in chosen:
        try:
            _restore.restore(
                row, options.store, Path(options.output) / row.repo / row.path, options.threads
            )
        except (OSError, ZstnError) as error:
            # The other files can still be restored.
            _say(f"error: {error}")
            failed += 1
    print(f"restored {len(chosen) - failed:,} of {len(chosen):,} files to {options.output}")
    return 1 if failed else 0


def _is_chosen(row: Row, names: Iterable[str]) -> bool:
    names = list(names)
    return not names or row.repo in names or row.place in names


def _rows(paths: Iterable[str | os.PathLike[str]]) -> list[Row]:
    return [row for path in paths for row in load_plan(path)]


def _say(text: str) -> None:
    print(text, file=sys.stderr)


def _problems(checked: _store.Checked) -> Iterator[str]:
    """Yields a line for each file that is damaged or could not be read."""
    for one in checked.damaged:
        yield f"damaged: {one.file}: {one.reason}"
    for one in checked.unread:
        yield f"unknown: {one.file}: {one.reason}"


def _check_lines(checked: _store.Checked, is_repair: bool, repaired: int) -> Iterator[str]:
    """Yields the lines that describe a check for people."""
    yield from _problems(checked)
    yield f"{checked.sound:,} packed files are as recorded; {checked.read_bytes:,} bytes read"
    others = len(checked.damaged) - repaired
    if not is_repair and others:
        yield (
            f"{others:,} damaged or missing; --repair lets the next run pack their originals again"
        )
        return
    if repaired:
        yield f"{repaired:,} damaged or missing: their entries were removed; run the plan again"
    if others:
        yield f"{others:,} damaged or missing that are in none of these plans; run theirs again"


class _Printer:
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


def _summary_event(summary: Summary) -> dict[str, object]:
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


def _summary_text(summary: Summary) -> str:
    """Returns the last line that a run prints for people."""
    return (
        f"{summary.packed} packed, {summary.known} done before, {summary.refused} refused, "
        f"{summary.retry} to try again, {summary.left} left; {summary.read_bytes:,} bytes read, "
        f"{summary.packed_bytes:,} written in {summary.seconds:.1f} s"
    )
