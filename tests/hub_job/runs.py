"""Starts commands of ``python -m zstn_hub`` for the tests."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

#: Time limit of a run, much longer than a job takes, so that a hang is a failure.
LIMIT_SECONDS = 600
#: The folder in the store whose files the plans list.
SOURCE = "s3://originals/models"


@dataclass
class Ended:
    """The output of a finished run."""

    status: int
    events: list[dict[str, Any]] = field(default_factory=list)

    @property
    def summary(self) -> dict[str, Any]:
        assert self.events[-1]["event"] == "summary"
        return self.events[-1]

    def last(self) -> dict[str, dict[str, Any]]:
        """The last event of each file, keyed by repository."""
        return {event["repo"]: event for event in self.events if event["event"] == "row"}


def hub(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs a command of ``python -m zstn_hub``."""
    command = [sys.executable, "-m", "zstn_hub", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_SECONDS)


def start(plan: Path, results: str, *arguments: str) -> subprocess.Popen[str]:
    """Starts a run of a plan for the files in `SOURCE`."""
    command = ["run", str(plan), "--from", SOURCE, "--to", results, "--json", *arguments]
    return subprocess.Popen(
        [sys.executable, "-m", "zstn_hub", *command], stdout=subprocess.PIPE, text=True
    )


def finish(process: subprocess.Popen[str]) -> Ended:
    """Waits until a run has ended, and returns its output."""
    try:
        output, _ = process.communicate(timeout=LIMIT_SECONDS)
    finally:
        process.kill()
    return Ended(process.returncode, [json.loads(line) for line in output.splitlines()])


def figure(text: str) -> None:
    """Prints a figure in the form that `cargo xtask` displays."""
    print(f"figure: {text}")
