"""The executor that uses the machines of a Ray cluster, through Ray Core."""

from __future__ import annotations

import importlib
import logging
import math
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from .._task import Outcome, Task
from . import Node

_Work = Callable[[dict[str, Any]], dict[str, Any]]

#: Number of submitted tasks for each that can run at the same time. It is large enough
#: that no machine waits for the run, and small enough that the scheduler's queue stays
#: short.
_IN_FLIGHT = 4

#: Seconds between two checks whether tasks wait for machines that are gone, and the age
#: in seconds up to which a list of machines is reused to count slots, which happens
#: often.
_STRANDED_INTERVAL = 5.0
_SLOTS_INTERVAL = 1.0
#: Seconds after which remaining tasks are asked to end again.
_CANCEL_INTERVAL = 5.0

#: The resource with which nodes declare disk space for temporary files, in GB.
SCRATCH = "scratch_gb"
_GB = 10**9

_MISSING = "the executor `ray` needs Ray: pip install 'zstn-hub[ray]'"


def open(address: str | None = None, threads: int = 1) -> RayExecutor:
    """Connects to a cluster.

    Args:
        address: the address of the cluster, such as ``"10.0.0.1:6379"`` or ``"auto"``;
            by default ``RAY_ADDRESS``, or a new cluster on this machine.
        threads: number of processors that a task of this run uses.

    Raises:
        ModuleNotFoundError: if Ray is not installed.
        ConnectionError: if there is no cluster at the address.
    """
    try:
        ray = _ray()
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(_MISSING, name="ray") from error
    owned = not ray.is_initialized()
    if owned:
        ray.init(address=address, log_to_driver=False, logging_level=logging.WARNING)
    return RayExecutor(threads, owned)


def _ray() -> Any:
    """Returns the package `ray`. It has the same name as this module, and type checkers
    would confuse the two if Ray is not installed."""
    return importlib.import_module("ray")


class RayExecutor:
    """Runs every task as a Ray task that reserves its processors, memory and disk space
    for temporary files. Ray starts each task once; retries are decided by the run."""

    def __init__(
        self,
        threads: int = 1,
        owned: bool = False,
        work: _Work | None = None,
    ) -> None:
        self._ray = _ray()
        self._threads = max(1, threads)
        self._owned = owned
        self._nodes: list[Node] = []
        self._has_scratch = False
        self._listed = 0.0
        self._tasks: dict[Any, Task] = {}
        self._looked = time.monotonic()
        # Arguments and results are small, so they do not enter the object store, and a
        # result is not lost with the node that made it.
        remote = self._ray.remote(max_retries=0, scheduling_strategy="SPREAD")
        self._remote = remote(_cancellable(work or _work))
        self.capacity()

    def capacity(self) -> Sequence[Node]:
        # The head node often has no processors and runs no tasks.
        alive = [
            node for node in self._ray.nodes() if node["Alive"] and node["Resources"].get("CPU")
        ]
        self._has_scratch = any(SCRATCH in node["Resources"] for node in alive)
        self._nodes = [_node(node, self._has_scratch) for node in alive]
        self._listed = time.monotonic()
        return self._nodes

    def slots(self) -> int:
        if time.monotonic() - self._listed > _SLOTS_INTERVAL:
            self.capacity()
        at_once = sum(node.threads // self._threads for node in self._nodes)
        return _IN_FLIGHT * max(1, at_once)

    def submit(self, task: Task) -> None:
        limits = task.limits
        options: dict[str, Any] = {
            "num_cpus": limits.threads,
            "memory": limits.memory_bytes,
            "name": f"{task.row['repo']}/{task.row['path']}",
        }
        if self._has_scratch:
            options["resources"] = {SCRATCH: _scratch(limits.scratch_bytes)}
        reference = self._remote.options(**options).remote(task.to_dict())
        self._tasks[reference] = task

    def wait(self, timeout: float) -> Iterable[Outcome]:
        if not self._tasks:
            time.sleep(max(0.0, timeout))
            return []
        deadline = time.monotonic() + timeout
        while True:
            left = deadline - time.monotonic()
            # A node that leaves may strand tasks that fit on no other node.
            outcomes = self._stranded() or self._finished(min(left, _STRANDED_INTERVAL))
            if outcomes or left <= _STRANDED_INTERVAL:
                return outcomes

    def stop(self, grace: float) -> Iterable[Outcome]:
        outcomes: list[Outcome] = []
        deadline = time.monotonic() + grace
        while self._tasks and (left := deadline - time.monotonic()) > 0:
            # Tasks that have not started are withdrawn; running ones get a
            # KeyboardInterrupt. Ray does not guarantee its delivery, so it is sent
            # again.
            for reference in self._tasks:
                self._ray.cancel(reference, force=False)
            outcomes += self._finished_until(time.monotonic() + min(left, _CANCEL_INTERVAL))
        for reference in self._tasks:
            self._ray.cancel(reference, force=True)
        outcomes += self._finished(0.0)
        for task in self._tasks.values():
            outcomes.append(_given_back(task, "the run ended before it"))
        self._tasks.clear()
        # Workers that were killed here do not count as lost.
        return [_unless_lost(outcome) for outcome in outcomes]

    def close(self) -> None:
        for reference in self._tasks:
            self._ray.cancel(reference, force=True)
        self._tasks.clear()
        if self._owned:
            self._ray.shutdown()

    def _finished_until(self, deadline: float) -> list[Outcome]:
        """Returns the outcomes that arrive before the deadline or until all have
        arrived."""
        outcomes: list[Outcome] = []
        while self._tasks and (left := deadline - time.monotonic()) > 0:
            outcomes += self._finished(left)
        return outcomes

    def _finished(self, timeout: float) -> list[Outcome]:
        """Waits for the first outcome, and returns all that have arrived by then."""
        references = list(self._tasks)
        ready, _ = self._ray.wait(references, num_returns=1, timeout=max(0.0, timeout))
        if ready:
            ready, _ = self._ray.wait(references, num_returns=len(references), timeout=0)
        return [self._outcome(reference, self._tasks.pop(reference)) for reference in ready]

    def _outcome(self, reference: Any, task: Task) -> Outcome:
        errors = self._ray.exceptions
        try:
            return Outcome.from_dict(self._ray.get(reference))
        except errors.TaskCancelledError:
            return _given_back(task, "it was cancelled")
        except errors.RayTaskError as error:
            if isinstance(error.cause, KeyboardInterrupt):
                return _given_back(task, "its process was asked to end")
            # `work` reports every error as an outcome, so zstn itself could not be
            # imported.
            reason = f"zstn does not run on the node: {error.cause or error}"
            return Outcome(task.key, "retry", _first_line(reason))
        except errors.OutOfMemoryError as error:
            reason = "the node had no memory left and its worker was ended: "
            return Outcome(task.key, "lost", reason + _first_line(str(error)))
        except (errors.NodeDiedError, errors.LocalRayletDiedError):
            return Outcome(task.key, "lost", "the node that worked on it is gone")
        except errors.WorkerCrashedError:
            return Outcome(task.key, "lost", "the process that worked on it is gone")
        except errors.RayError as error:
            return Outcome(task.key, "lost", _first_line(f"{type(error).__name__}: {error}"))

    def _stranded(self) -> list[Outcome]:
        """Withdraws tasks that wait for a node that is gone; Ray would wait forever."""
        now = time.monotonic()
        if now - self._looked < _STRANDED_INTERVAL:
            return []
        self._looked = now
        nodes = self.capacity()
        outcomes: list[Outcome] = []
        for reference, task in list(self._tasks.items()):
            if not any(node.holds(task) for node in nodes):
                self._ray.cancel(reference, force=True)
                del self._tasks[reference]
                reason = "the remaining nodes are too small for it"
                outcomes.append(Outcome(task.key, "lost", reason))
        return outcomes


def _cancellable(work: _Work) -> _Work:
    """Returns a version of `work` that Ray can cancel. Ray cancels with SIGINT, which
    processes ignore if their cluster was started in the background."""

    def run(values: dict[str, Any]) -> dict[str, Any]:
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        return work(values)

    return run


def _work(values: dict[str, Any]) -> dict[str, Any]:
    """Works on a task in a Ray process."""
    from .._work import work

    try:
        outcome = Outcome.from_dict(work(values))
    except KeyboardInterrupt:
        outcome = _given_back(Task.from_dict(values), "its process was asked to end")
    # Several nodes may run on one machine.
    node = _ray().get_runtime_context().get_node_id()[:8]
    return replace(outcome, node=f"{socket.gethostname()}/{node}/{os.getpid()}").to_dict()


def _node(node: dict[str, Any], declared: bool) -> Node:
    resources = node["Resources"]
    # If other nodes declare their disk space, a node that does not declare its own gets
    # no task that needs disk space.
    scratch = int(resources.get(SCRATCH, 0) * _GB) if declared else None
    return Node(
        name=f"{node['NodeManagerHostname']}/{node['NodeID'][:8]}",
        memory_bytes=int(resources.get("memory", 0)),
        scratch_bytes=scratch,
        threads=int(resources.get("CPU", 0)),
    )


def _scratch(scratch_bytes: int) -> float:
    """Returns the amount to reserve, rounded up: Ray counts in steps of 0.0001 up to 1,
    and in whole numbers above. Nodes declare whole numbers, so a task that fits still
    fits."""
    gigabytes = scratch_bytes / _GB
    return math.ceil(gigabytes) if gigabytes > 1 else math.ceil(gigabytes * 1e4) / 1e4


def _given_back(task: Task, reason: str) -> Outcome:
    return Outcome(task.key, "given_back", reason)


def _unless_lost(outcome: Outcome) -> Outcome:
    return replace(outcome, state="given_back") if outcome.state == "lost" else outcome


def _first_line(text: str) -> str:
    lines: Iterator[str] = (line.strip() for line in text.splitlines())
    return next((line for line in lines if line), "no reason was given")
