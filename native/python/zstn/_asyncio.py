"""Running calls of zstn in asyncio tasks."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from . import _native

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
