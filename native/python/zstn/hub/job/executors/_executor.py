"""The interface between a run and what executes its tasks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from .._task import Outcome, Task


@dataclass(frozen=True)
class Node:
    """A machine, with what all tasks on it together may take."""

    name: str
    memory_bytes: int
    #: Room for temporary files; `None` if it is unknown, which holds every task.
    scratch_bytes: int | None
    #: Processors.
    threads: int

    def holds(self, task: Task) -> bool:
        """Returns whether a task fits while nothing else runs."""
        limits = task.limits
        return (
            limits.memory_bytes <= self.memory_bytes
            and limits.threads <= self.threads
            and (self.scratch_bytes is None or limits.scratch_bytes <= self.scratch_bytes)
        )


class Executor(Protocol):
    """Runs tasks somewhere, each by `zstn.hub.job.work` in a process that may
    die. The run decides what is tried again: an executor starts every task that
    it is given once, and has one outcome for it, ``lost`` if its process died.

    Its methods are called from one thread."""

    def capacity(self) -> Sequence[Node]:
        """Returns the machines as they are now. The run refuses tasks that none of
        them holds before it submits them."""
        ...

    def slots(self) -> int:
        """Returns the number of tasks that may be submitted and unfinished, at
        least 1: several times what works at the same time, so that no machine waits
        for the run."""
        ...

    def submit(self, task: Task) -> None:
        """Takes a task. It starts when its resources are free."""

    def wait(self, timeout: float) -> Iterable[Outcome]:
        """Returns outcomes that have not been returned yet: waits for the first one,
        at most `timeout` seconds, and returns none if there is none by then."""
        ...

    def stop(self, grace: float) -> Iterable[Outcome]:
        """Gives work back: starts nothing more, asks running tasks to end, and ends
        them after `grace` seconds. Returns an outcome for everything that was
        submitted and not returned by `wait`; ``given_back`` for what was not done."""
        ...

    def close(self) -> None:
        """Releases processes and connections, after all outcomes or a failure."""
