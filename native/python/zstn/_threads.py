"""Threads that wait for other machines."""

from __future__ import annotations

import os
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
