"""Threads for requests, and locks that survive a fork."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor

#: Maximum number of concurrent requests.
_REQUESTS = 8

_executor: tuple[int, ThreadPoolExecutor] | None = None


def executor() -> ThreadPoolExecutor:
    """Returns the thread pool of this process. A forked child gets a new one, as it has
    none of its parent's threads."""
    global _executor
    if _executor is None or _executor[0] != os.getpid():
        _executor = os.getpid(), ThreadPoolExecutor(_REQUESTS, "zstn")
    return _executor[1]


class ProcessLock:
    """A lock between the threads of a process. It is unlocked in a forked child even if
    a thread of the parent held it, because that thread does not exist in the child."""

    def __init__(self) -> None:
        self._of_process = os.getpid(), threading.Lock()

    def get(self) -> threading.Lock:
        process, lock = self._of_process
        if process != os.getpid():
            lock = threading.Lock()
            self._of_process = os.getpid(), lock
        return lock
