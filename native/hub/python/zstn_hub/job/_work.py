"""Work on a single task, in any process on any machine."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from zstn import ZstnError, _native

from ._restore import DamagedBaseError, MissingBaseError, RefusedBaseError, base_paths
from ._row import Row
from ._task import Outcome, State, Task


class GivenBack(BaseException):
    """Raised by SIGTERM to end the work on a task, which another process will do."""


def work(values: dict[str, Any]) -> dict[str, Any]:
    """Works on a task given as `Task.to_dict`, and returns its outcome as
    `Outcome.to_dict`. Never raises an exception: every failure is an outcome. On the
    main thread, SIGTERM ends the work with the state ``given_back``."""
    task = Task.from_dict(values)
    begun = time.monotonic()
    read_bytes = packed_bytes = 0
    state: State
    try:
        with _until_sigterm():
            state, reason, read_bytes, packed_bytes = _work(task)
    except GivenBack:
        state, reason = "given_back", "its process was asked to end"
    except Exception as error:
        # This is a defect, or the machine is out of memory; another attempt may
        # succeed.
        state, reason = "retry", f"{type(error).__name__}: {error}"
    outcome = Outcome(
        task.key,
        state,
        reason,
        read_bytes,
        packed_bytes,
        _peak_bytes(),
        time.monotonic() - begun,
        platform.node(),
    )
    return outcome.to_dict()


def scratch_folder() -> Path:
    """Returns the folder for work in progress, inside the folder for temporary files.
    The next process removes files that killed processes left there."""
    user = os.getuid() if hasattr(os, "getuid") else 0
    folder = Path(tempfile.gettempdir()) / f"zstn-hub-{user}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def _work(task: Task) -> tuple[State, str, int, int]:
    results = _native.Results(task.store)
    row = Row.from_dict(task.row)
    bases: list[Path] | None = None
    if row.bases and results.packed(json.dumps(task.row)) is None:
        try:
            bases = base_paths(results, row, task.places)
        except MissingBaseError as error:
            return _failed(results, row, "retry", str(error))
        except RefusedBaseError as error:
            return _failed(results, row, "refused", str(error))
        except DamagedBaseError as error:
            # The base has to be packed again first, by a run whose plan contains it.
            results.remove("done", f"{error.key}.json")
            return _failed(results, row, "retry", f"{error}; another run packs it again")
        except (ZstnError, OSError) as error:
            return _failed(results, row, "retry", str(error))
    return _native.work_row(
        json.dumps(task.row),
        task.source,
        results,
        scratch_folder(),
        bases,
        task.effort,
        task.extended,
        task.limits.packer_bytes,
        task.limits.threads,
        task.retry_refused,
    )


def _failed(
    results: _native.Results, row: Row, state: State, reason: str
) -> tuple[State, str, int, int]:
    put_failed(results, row, state, reason)
    return state, reason, 0, 0


def put_failed(results: _native.Results, row: Row, state: State, reason: str) -> None:
    """Records a failure. `state` is also its class."""
    results.put_failed(json.dumps({**row.to_dict(), "class": state, "reason": reason}))


@contextlib.contextmanager
def _until_sigterm() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def give_back(*_: object) -> None:
        raise GivenBack

    before = signal.signal(signal.SIGTERM, give_back)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _peak_bytes() -> int:
    if sys.platform == "win32":
        return 0
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # `ru_maxrss` is in kibibytes, except on macOS.
    return peak if sys.platform == "darwin" else peak << 10
