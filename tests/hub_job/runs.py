"""Commands of ``python -m zstn.hub`` as the tests start them."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

#: Far longer than a job takes, so that a hang is a failure.
LIMIT_SECONDS = 600
#: The folder in the store that plans list.
SOURCE = "s3://originals/models"


@dataclass
class Ended:
    """A run that has ended."""

    status: int
    events: list[dict[str, Any]] = field(default_factory=list)

    @property
    def summary(self) -> dict[str, Any]:
        assert self.events[-1]["event"] == "summary"
        return self.events[-1]

    def last(self) -> dict[str, dict[str, Any]]:
        """The last event of each file."""
        return {event["repo"]: event for event in self.events if event["event"] == "row"}


def hub(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs a command of ``python -m zstn.hub``."""
    command = [sys.executable, "-m", "zstn.hub", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_SECONDS)


def start(plan: Path, results: str, *arguments: str) -> subprocess.Popen[str]:
    """Starts a run of a plan of `SOURCE`."""
    command = ["run", str(plan), "--from", SOURCE, "--to", results, "--json", *arguments]
    return subprocess.Popen(
        [sys.executable, "-m", "zstn.hub", *command], stdout=subprocess.PIPE, text=True
    )


def finish(process: subprocess.Popen[str]) -> Ended:
    """Waits for the end of a run."""
    try:
        output, _ = process.communicate(timeout=LIMIT_SECONDS)
    finally:
        process.kill()
    return Ended(process.returncode, [json.loads(line) for line in output.splitlines()])


def figure(text: str) -> None:
    """Prints a line that `cargo xtask` shows."""
    print(f"figure: {text}")
