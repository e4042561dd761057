"""Threads for requests and for calls in asyncio tasks, and locks that survive a fork."""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from . import _native

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


_P = ParamSpec("_P")
_T = TypeVar("_T")


async def to_thread(function: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """Calls a function of zstn in another thread, like `asyncio.to_thread`.

    If the task is cancelled, the work is stopped, and the task gets its
    `CancelledError` once it has stopped. Afterwards, none of the caller's objects is
    read and no output is published. With `asyncio.to_thread`, the work would continue.

    >>> report = await zstn.to_thread(zstn.pack, "model.safetensors", "model.zstn")
    """
    cancellation = _native.Cancellation()
    context = contextvars.copy_context()

    def call() -> _T:
        with cancellation:
            return context.run(function, *args, **kwargs)

    work = asyncio.get_running_loop().run_in_executor(None, call)
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        cancellation.cancel()
        while not work.done():
            try:
                await asyncio.wait([work])
            except asyncio.CancelledError:
                # The work stops soon, so a second cancellation can wait.
                continue
        if not work.cancelled():
            # The task is cancelled, whether or not the work failed.
            work.exception()
        raise
