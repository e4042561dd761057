"""The work that tasks perform in the tests of the executor, given by the path in the
row."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from zstn_hub.job._task import Outcome, Task


def work(values: dict[str, Any]) -> dict[str, Any]:
    """Takes the place of `zstn_hub.job._work.work`, and ends as the path of the task
    states."""
    task = Task.from_dict(values)
    verb, _, argument = task.row["path"].partition(" ")
    if verb == "crash":
        os.kill(os.getpid(), signal.SIGKILL)
    if verb == "raise":
        raise RuntimeError(argument)
    if verb == "refuse":
        return Outcome(task.key, "refused", argument).to_dict()
    if verb == "sleep":
        seconds, _, folder = argument.partition(" ")
        started = Path(folder, task.key)
        started.touch()
        try:
            # The packer also checks for an interrupt ten times a second. Ray sends no
            # signal that would end a longer sleep.
            until = time.monotonic() + float(seconds)
            while time.monotonic() < until:
                time.sleep(0.02)
        except KeyboardInterrupt:
            return Outcome(task.key, "given_back", "it was asked to").to_dict()
        Path(folder, f"{task.key}-done").touch()
    return Outcome(task.key, "packed", seconds=1.5, packed_bytes=7, node=str(os.getpid())).to_dict()
