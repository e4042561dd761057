"""The executor that uses processes of this machine. Run as a program, this module is one
of these processes: it reads tasks and writes outcomes, one JSON object per line."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from .._task import Outcome, Task
from .._work import GivenBack, work
from . import Node

#: Share of a machine's memory that tasks may use by default.
_MEMORY_SHARE = 0.8
#: Assumed memory of a machine that does not report its own; ``--memory`` overrides it.
_UNKNOWN_MEMORY_BYTES = 8 << 30


class LocalExecutor:
    """Runs tasks in processes of this machine. The number of concurrent tasks is limited
    by its processors, memory and disk space for temporary files. See `Executor`."""

    def __init__(
        self,
        processes: int | None = None,
        memory_bytes: int | None = None,
        threads: int = 1,
    ) -> None:
        processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (
            os.cpu_count() or 1
        )
        self._processes = processes or max(1, processors // threads)
        self._node = Node(
            platform.node(),
            memory_bytes or int(_memory_bytes() * _MEMORY_SHARE),
            shutil.disk_usage(tempfile.gettempdir()).free,
            self._processes * threads,
        )
        self._waiting: list[Task] = []
        self._idle: list[_Process] = []
        self._busy: dict[str, tuple[_Process, Task]] = {}
        self._ended: queue.Queue[Outcome] = queue.Queue()

    def capacity(self) -> Sequence[Node]:
        return [self._node]

    def slots(self) -> int:
        return 2 * self._processes

    def submit(self, task: Task) -> None:
        self._waiting.append(task)
        self._start()

    def wait(self, timeout: float) -> Iterable[Outcome]:
        outcomes = self._collect(timeout)
        self._start()
        return outcomes

    def stop(self, grace: float) -> Iterable[Outcome]:
        given_back = [
            Outcome(task.key, "given_back", "it was not started") for task in self._waiting
        ]
        self._waiting.clear()
        for process, _ in self._busy.values():
            process.end()
        deadline = time.monotonic() + grace
        while self._busy and time.monotonic() < deadline:
            given_back += self._collect(deadline - time.monotonic())
        for process, _ in self._busy.values():
            process.kill()
        while self._busy:
            given_back += [
                Outcome(outcome.key, "given_back", "its process was killed")
                if outcome.state == "lost"
                else outcome
                for outcome in self._collect(10.0)
            ]
        return given_back

    def close(self) -> None:
        for process in [*self._idle, *(process for process, _ in self._busy.values())]:
            process.close()
        self._idle.clear()
        self._busy.clear()

    def _start(self) -> None:
        """Starts waiting tasks that fit together with the running ones, in order."""
        for task in list(self._waiting):
            if len(self._busy) >= self._processes:
                return
            if not self._fits(task):
                continue
            self._waiting.remove(task)
            process = self._idle.pop() if self._idle else _Process(self._ended)
            self._busy[task.key] = (process, task)
            process.begin(task)

    def _fits(self, task: Task) -> bool:
        running = [other.limits for _, other in self._busy.values()]
        if not running:
            return True
        memory = sum(limits.memory_bytes for limits in running) + task.limits.memory_bytes
        scratch = sum(limits.scratch_bytes for limits in running) + task.limits.scratch_bytes
        return memory <= self._node.memory_bytes and scratch <= (self._node.scratch_bytes or 0)

    def _collect(self, timeout: float) -> list[Outcome]:
        """Waits for an outcome, and returns all that have arrived."""
        ended: list[Outcome] = []
        with contextlib.suppress(queue.Empty):
            ended.append(self._ended.get(timeout=max(timeout, 0.0)))
            while True:
                ended.append(self._ended.get_nowait())
        for outcome in ended:
            process, _ = self._busy.pop(outcome.key)
            if outcome.state in ("lost", "given_back"):
                process.close()
            else:
                self._idle.append(process)
        return ended


class _Process:
    """A process that works on one task at a time. It puts one outcome into the queue
    for every task."""

    def __init__(self, ended: queue.Queue[Outcome]) -> None:
        package = Path(__file__).parents[3]
        path = os.pathsep.join(filter(None, [str(package), os.environ.get("PYTHONPATH")]))
        self._child = subprocess.Popen(
            [sys.executable, "-m", "zstn_hub.job.executors.local"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
            # A signal to the run's process group must not reach this process.
            start_new_session=True,
        )
        self._ended = ended
        self._lock = threading.Lock()
        self._key: str | None = None
        self._is_gone = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def begin(self, task: Task) -> None:
        assert self._child.stdin is not None
        with self._lock:
            if self._is_gone:
                self._ended.put(self._lost(task.key))
                return
            self._key = task.key
        # The reading thread notices that the process has ended.
        with contextlib.suppress(BrokenPipeError):
            self._child.stdin.write(json.dumps(task.to_dict()) + "\n")
            self._child.stdin.flush()

    def end(self) -> None:
        """Asks the process to give its task back."""
        self._child.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self._child.kill()

    def close(self) -> None:
        """Kills the process."""
        assert self._child.stdin is not None
        self._child.kill()
        self._child.wait()
        self._reader.join()
        with contextlib.suppress(BrokenPipeError):
            self._child.stdin.close()

    def _read(self) -> None:
        assert self._child.stdout is not None
        with self._child.stdout as lines:
            for line in lines:
                outcome = Outcome.from_dict(json.loads(line))
                with self._lock:
                    self._key = None
                self._ended.put(outcome)
        with self._lock:
            self._is_gone = True
            key, self._key = self._key, None
        if key is not None:
            self._ended.put(self._lost(key))

    def _lost(self, key: str) -> Outcome:
        status = self._child.wait()
        how = f"by signal {-status}" if status < 0 else f"with status {status}"
        return Outcome(key, "lost", f"its process ended {how}", node=platform.node())


def _memory_bytes() -> int:
    """Returns the memory that this process may use, limited by the machine or its
    control group."""
    if not hasattr(os, "sysconf"):
        return _UNKNOWN_MEMORY_BYTES
    bytes_ = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        try:
            limit = Path("/sys/fs/cgroup", name).read_text().strip()
        except OSError:
            continue
        if limit.isdecimal():
            bytes_ = min(bytes_, int(limit))
    return bytes_


def main() -> None:
    # Ctrl-C in a terminal is meant for the run, which gives tasks back.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Other output to standard output must not be mistaken for an outcome.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for line in sys.stdin:
        outcome = work(json.loads(line))
        print(json.dumps(outcome), file=out, flush=True)
        if outcome["state"] == "given_back":
            return


if __name__ == "__main__":
    try:
        main()
    except (GivenBack, BrokenPipeError):
        pass
