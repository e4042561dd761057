"""Executors, which run tasks in processes on this machine (`local`) or in a cluster
(`ray`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from .._task import Outcome, Task

__all__ = ["Executor", "Node"]


@dataclass(frozen=True)
class Node:
    """A machine, with the resources that all its tasks share."""

    name: str
    memory_bytes: int
    #: Disk space for temporary files; `None` if unknown, which means that every task
    #: fits.
    scratch_bytes: int | None
    #: Number of processors.
    threads: int

    def holds(self, task: Task) -> bool:
        """Returns whether a task fits on the otherwise idle machine."""
        limits = task.limits
        return (
            limits.memory_bytes <= self.memory_bytes
            and limits.threads <= self.threads
            and (self.scratch_bytes is None or limits.scratch_bytes <= self.scratch_bytes)
        )


class Executor(Protocol):
    """Runs tasks, each by calling `zstn_hub.job.work` in a process that may die. It starts
    every task once and reports one outcome for it, ``lost`` if its process died; the run
    decides about retries.

    Its methods are called from one thread."""

    def capacity(self) -> Sequence[Node]:
        """Returns the current machines. The run refuses tasks that fit on none of them
        instead of submitting them."""
        ...

    def slots(self) -> int:
        """Returns the number of tasks that may be submitted and unfinished, at least 1.
        It is several times the number of tasks that run at the same time, so that no
        machine waits for the run."""
        ...

    def submit(self, task: Task) -> None:
        """Accepts a task, which starts as soon as its resources are free."""

    def wait(self, timeout: float) -> Iterable[Outcome]:
        """Returns outcomes that have not been returned yet. Waits at most `timeout`
        seconds for the first, and returns none after that."""
        ...

    def stop(self, grace: float) -> Iterable[Outcome]:
        """Stops the executor: starts no new tasks, asks running tasks to end, and kills them after
        `grace` seconds. Returns an outcome for every task that was submitted and not
        returned by `wait`; ``given_back`` for tasks that were not completed."""
        ...

    def close(self) -> None:
        """Releases processes and connections, after all outcomes or after a failure."""
