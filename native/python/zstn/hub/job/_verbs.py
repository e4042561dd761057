"""The commands of ``python -m zstn.hub``."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import signal
import sys
from collections.abc import Iterable
from pathlib import Path

from ..._errors import ZstnError
from . import _check, _gc, _report, _restore
from ._family import with_bases
from ._listing import check_source, is_hub, mistake
from ._plan import Planner
from ._progress import Printer, summary_event, summary_text
from ._row import Row, load_plan, read_plan, write_plan
from ._run import Run, Settings
from .executors import Executor


def plan(options: argparse.Namespace) -> int:
    if options.base and not options.to:
        raise ValueError("--base auto keeps sketches where results are; name that with --to")
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
    """A configuration error, with which a command fails whenever it is run."""


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
    # Ray prints messages about lost nodes, which must not mix with the objects of
    # ``--json``.
    with contextlib.redirect_stdout(sys.stderr):
        work = Run(rows, _executor(options), settings)
    work.watch = Printer(work.total, options.json, sys.stdout)

    def stop(number: int, _: object) -> None:
        # A second signal ends the process at once.
        signal.signal(number, signal.SIG_DFL)
        work.stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    with contextlib.redirect_stdout(sys.stderr):
        summary = work.run()
    print(json.dumps(summary_event(summary)) if options.json else summary_text(summary))
    return summary.status


def _executor(options: argparse.Namespace) -> Executor:
    if options.executor == "ray":
        # Without Ray, this module cannot be imported.
        ray = importlib.import_module("zstn.hub.job.executors.ray")
        opened: Executor = ray.open(address=options.address, threads=options.threads)
        return opened
    from .executors.local import LocalExecutor

    return LocalExecutor(options.processes, options.memory, options.threads)


def report(options: argparse.Namespace) -> int:
    found = _report.report(_rows(options.plan), options.store)
    print(json.dumps(found.to_dict(), indent=2) if options.json else found)
    return 1 if found.lost_files else 0


def check(options: argparse.Namespace) -> int:
    checked = _check.check(_rows(options.plan), options.store)
    if options.repair:
        _check.repair(options.store, checked.damaged)
    if options.json:
        print(json.dumps({**checked.to_dict(), "repaired": bool(options.repair)}, indent=2))
    else:
        print("\n".join(_check.lines(checked, options.repair)))
    if checked.unread:
        return 3
    return 1 if checked.damaged else 0


def gc(options: argparse.Namespace) -> int:
    rows = _rows(options.plan)
    if not rows:
        raise ValueError("the plans name no files, so that everything would be removed")
    garbage = _gc.find_garbage(options.store, rows)
    if options.delete:
        _gc.remove_garbage(options.store, garbage)
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
        raise ValueError("no plan has these files")
    status = 0
    for row in chosen:
        try:
            _restore.restore(
                row, options.store, Path(options.output) / row.repo / row.path, options.threads
            )
        except (OSError, ZstnError) as error:
            # The other files can still be restored.
            _say(f"error: {error}")
            status = 1
    return status


def _is_chosen(row: Row, names: Iterable[str]) -> bool:
    names = list(names)
    return not names or row.repo in names or row.place in names


def _rows(paths: Iterable[str | os.PathLike[str]]) -> list[Row]:
    return [row for path in paths for row in load_plan(path)]


def _say(text: str) -> None:
    print(text, file=sys.stderr)
