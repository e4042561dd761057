"""Threads for requests and for calls in asynchronous tasks, and locks that survive a fork."""

from __future__ import annotations

import asyncio
import contextvars
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, ParamSpec, TypeVar

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
    """Calls a function of zstn in another thread, like `asyncio.to_thread`. It works in
    tasks of asyncio and of trio.

    If the task is cancelled, the work is stopped, and the task gets its
    `asyncio.CancelledError` or `trio.Cancelled` once it has stopped. Afterwards, none of
    the caller's objects is read and no output is published. With `asyncio.to_thread`, the
    work would continue.

    >>> report = await zstn.to_thread(zstn.pack, "model.safetensors", "model.zstn")
    """
    cancellation = _native.Cancellation()

    def cancellable() -> _T:
        with cancellation:
            return function(*args, **kwargs)

    trio = running_trio()
    if trio is None:
        return await _in_asyncio(cancellable, cancellation)
    return await _in_trio(trio, cancellable, cancellation)


def running_trio() -> Any:
    """Returns the module trio if the caller is one of its tasks, and `None` otherwise."""
    trio: Any = sys.modules.get("trio")
    return trio if trio is not None and trio.lowlevel.in_trio_task() else None


async def _in_asyncio(function: Callable[[], _T], cancellation: _native.Cancellation) -> _T:
    call = partial(contextvars.copy_context().run, function)
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


async def _in_trio(
    trio: Any, function: Callable[[], _T], cancellation: _native.Cancellation
) -> _T:
    await trio.lowlevel.checkpoint_if_cancelled()
    done = trio.Event()
    outcome: Future[_T] = Future()

    async def work() -> None:
        try:
            outcome.set_result(await trio.to_thread.run_sync(function))
        except BaseException as error:
            # An exception of a system task would end the whole run.
            outcome.set_exception(error)
        done.set()

    # The cancellation of the caller does not reach a system task, so `done` is set only
    # when the work has stopped.
    trio.lowlevel.spawn_system_task(work, context=contextvars.copy_context())
    try:
        await done.wait()
    except BaseException:
        cancellation.cancel()
        with trio.CancelScope(shield=True):
            await done.wait()
        raise
    return outcome.result()
