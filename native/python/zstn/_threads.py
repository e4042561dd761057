"""Threads that wait for other machines, and locks between threads."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor

#: Requests that are under way at the same time.
_REQUESTS = 8

_executor: tuple[int, ThreadPoolExecutor] | None = None


def executor() -> ThreadPoolExecutor:
    """Returns the threads of this process. A child that was forked has none of
    its parent's."""
    global _executor
    if _executor is None or _executor[0] != os.getpid():
        _executor = os.getpid(), ThreadPoolExecutor(_REQUESTS, "zstn")
    return _executor[1]


class ProcessLock:
    """A lock between the threads of a process. In a child that is forked while
    a thread of the parent holds it, it is open: there is no such thread."""

    def __init__(self) -> None:
        self._of_process = os.getpid(), threading.Lock()

    def get(self) -> threading.Lock:
        process, lock = self._of_process
        if process != os.getpid():
            lock = threading.Lock()
            self._of_process = os.getpid(), lock
        return lock
