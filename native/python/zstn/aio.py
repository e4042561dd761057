"""Opened models for asyncio and trio: reads wait without blocking a thread.

>>> async with zstn.aio.open("https://…/model.zstn") as model:
...     weight = await model.numpy("wte.weight")
...     rows = await model.rows("wte.weight", [3, 9])
...     async for name, tensor in model.stream():
...         print(name, tensor.shape)

When a task is cancelled, its requests are closed before it receives the cancellation. Use
`zstn.to_thread` for functions that pack, unpack, verify or convert.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Protocol, overload

from . import _native
from ._errors import ZstnError
from ._frameworks import find
from ._log import LOGGER, shown
from ._options import count, flag
from ._slices import has_whole_bytes, plan
from ._sources import http_options
from ._threads import running_trio
from ._types import Bases, Input

if TYPE_CHECKING:
    from types import TracebackType

    import numpy as np
    import torch

__all__ = ["AsyncReader", "open"]

#: Receives the result of a task of the native module, or its exception.
_Done = Callable[[Any, BaseException | None], None]


class _Start(Protocol):
    def __call__(self, done: _Done, /) -> _native.Running: ...


class AsyncReader:
    """An opened model, returned by `open`. Several tasks may read at the same time.

    A reader belongs to the process that opened it.
    """

    def __init__(self, reader: _native.AsyncReader) -> None:
        self._native: _native.AsyncReader | None = reader

    def _get(self) -> _native.AsyncReader:
        if self._native is None:
            raise ZstnError("the model has been closed", "closed")
        return self._native

    @property
    def name(self) -> str:
        """The path or address with which the model was opened."""
        return self._get().name

    @property
    def kind(self) -> str:
        """The file format, such as ``"zstn"`` or ``"safetensors"``."""
        return self._get().kind

    @property
    def metadata(self) -> dict[str, str]:
        """The metadata of the file as text, as in `zstn.Reader.metadata`, except that
        nothing is read: a file that was packed from another format may have none here."""
        return self._get().metadata()

    def keys(self) -> list[str]:
        """Returns the names of all tensors, in the order of the index."""
        return self._get().keys()

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __len__(self) -> int:
        return len(self.keys())

    def __contains__(self, name: object) -> bool:
        return name in self.keys()

    def __getitem__(self, name: str) -> _native.TensorInfo:
        """Returns the index entry of a tensor.

        Raises:
            TensorNotFoundError: if there is no tensor with this name.
        """
        return self._get().find(name)

    async def read(self, name: str) -> _native.Buffer:
        """Reads the bytes of a tensor, little-endian and row-major."""
        reader = self._get()
        return await _run(lambda done: reader.read(name, done))

    async def numpy(self, name: str) -> np.ndarray[Any, np.dtype[Any]]:
        """Reads a tensor as a NumPy array that owns its memory."""
        return await self.tensor(name, "numpy")

    @overload
    async def tensor(
        self, name: str, framework: Literal["numpy", "np"] = "numpy", device: Any = "cpu"
    ) -> np.ndarray[Any, np.dtype[Any]]: ...
    @overload
    async def tensor(
        self, name: str, framework: Literal["torch", "pt", "pytorch"], device: Any = "cpu"
    ) -> torch.Tensor: ...
    @overload
    async def tensor(self, name: str, framework: str, device: Any = "cpu") -> Any: ...
    async def tensor(self, name: str, framework: str = "numpy", device: Any = "cpu") -> Any:
        """Reads a tensor as a tensor of a framework: ``"numpy"``, ``"torch"``, ``"jax"``,
        ``"mlx"``, …"""
        info, make = self[name], find(framework, device)[1]
        return make(await self.read(name), info.dtype, info.shape, device)

    @overload
    async def rows(
        self,
        name: str,
        index: Any,
        framework: Literal["numpy", "np"] = "numpy",
        device: Any = "cpu",
    ) -> np.ndarray[Any, np.dtype[Any]]: ...
    @overload
    async def rows(
        self,
        name: str,
        index: Any,
        framework: Literal["torch", "pt", "pytorch"],
        device: Any = "cpu",
    ) -> torch.Tensor: ...
    @overload
    async def rows(self, name: str, index: Any, framework: str, device: Any = "cpu") -> Any: ...
    async def rows(
        self, name: str, index: Any, framework: str = "numpy", device: Any = "cpu"
    ) -> Any:
        """Reads the part of a tensor that a NumPy index selects: an integer, a slice, a
        list, an array or a mask, or a tuple of them for several dimensions, such as
        ``numpy.s_[10:20, :, 3]``.

        Only the blocks that contain selected elements are fetched, adjacent blocks in
        one request. Unlike `zstn.Reader`, this caches nothing for the next index.

        Raises:
            SliceError: if the index is out of bounds.
        """
        reader, info, make = self._get(), self[name], find(framework, device)[1]
        planned = plan(index, info.shape)
        if planned is None or (planned.rest is not None and not has_whole_bytes(info, planned)):
            whole = make(await self.read(name), info.dtype, info.shape, device)
            return whole[index]
        content = await _run(lambda done: reader.read_slice(name, planned.picks, done))
        part = make(content, info.dtype, planned.shape, device)
        return part if planned.rest is None else part[planned.rest]

    @overload
    def stream(
        self,
        names: Iterable[str] | None = None,
        framework: Literal["numpy", "np"] = "numpy",
        device: Any = "cpu",
        *,
        ahead: int = 4,
    ) -> AsyncGenerator[tuple[str, np.ndarray[Any, np.dtype[Any]]], None]: ...
    @overload
    def stream(
        self,
        names: Iterable[str] | None,
        framework: Literal["torch", "pt", "pytorch"],
        device: Any = "cpu",
        *,
        ahead: int = 4,
    ) -> AsyncGenerator[tuple[str, torch.Tensor], None]: ...
    @overload
    def stream(
        self,
        names: Iterable[str] | None = None,
        framework: str = "numpy",
        device: Any = "cpu",
        *,
        ahead: int = 4,
    ) -> AsyncGenerator[tuple[str, Any], None]: ...
    async def stream(
        self,
        names: Iterable[str] | None = None,
        framework: str = "numpy",
        device: Any = "cpu",
        *,
        ahead: int = 4,
    ) -> AsyncGenerator[tuple[str, Any], None]:
        """Yields the names and tensors of `names`, or of the whole model, in this order.

        Args:
            ahead: number of tensors that are read at the same time, at least 1. Their
                memory is the memory of the stream.
        """
        ahead = count("ahead", ahead, 1) or 1
        reader, make = self._get(), find(framework, device)[1]
        rest = iter(self.keys() if names is None else list(names))
        reads: deque[tuple[_native.TensorInfo, _Task]] = deque()
        try:
            while True:
                while len(reads) < ahead and (name := next(rest, None)) is not None:
                    read = partial(reader.read, name)
                    reads.append((self[name], _started(read)))
                if not reads:
                    return
                info, task = reads[0]
                content = await task.wait()
                reads.popleft()
                yield info.name, make(content, info.dtype, info.shape, device)
        finally:
            for _, task in reads:
                task.cancel()

    async def close(self) -> None:
        """Closes the model's files and connections, once the reads in progress end."""
        self._native = None

    async def __aenter__(self) -> AsyncReader:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        if self._native is None:
            return "<zstn.aio.AsyncReader, closed>"
        return f"<zstn.aio.AsyncReader of {self.name}: {self.kind}, {len(self)} tensors>"


class _Opening:
    """A model that is opened when this is awaited, or entered by ``async with``."""

    def __init__(self, start: _Start) -> None:
        self._start = start
        self._reader: AsyncReader | None = None

    async def _open(self) -> AsyncReader:
        reader: _native.AsyncReader = await _run(self._start)
        LOGGER.debug("opened %s: %s, %d tensors", shown(reader.name), reader.kind, len(reader.keys()))
        return AsyncReader(reader)

    def __await__(self) -> Generator[Any, Any, AsyncReader]:
        return self._open().__await__()

    async def __aenter__(self) -> AsyncReader:
        self._reader = await self._open()
        return self._reader

    if not TYPE_CHECKING:
        # Type checkers report these mistakes if the methods are absent.

        def __enter__(self):
            raise TypeError("write `async with zstn.aio.open(…)` instead of `with`")

        def __exit__(self, *_):
            """Exists because ``with`` looks for it before it calls `__enter__`."""

        def __getattr__(self, name):
            raise AttributeError(
                f"the model is not open yet, so it has no `{name}`: write "
                "`model = await zstn.aio.open(…)` or `async with zstn.aio.open(…) as model`"
            )

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._reader is not None:
            await self._reader.close()


def open(
    source: Input,
    *,
    base: Bases = None,
    token: str | None = None,
    headers: dict[str, str] | None = None,
    retries: int | None = None,
    timeout: float | None = None,
    max_full_download_bytes: int | None = None,
    threads: int = 0,
    dense: bool = True,
    verify: Literal["stored", "full"] = "full",
) -> _Opening:
    """Opens a model: ``model = await zstn.aio.open(…)``, or
    ``async with zstn.aio.open(…) as model``.

    It takes the arguments of `zstn.open` and raises the same errors. A file object, or a file of fsspec,
    is read on threads, and a read of it in progress cannot be interrupted.
    """
    if verify not in ("stored", "full"):
        raise ValueError(f'verify must be "stored" or "full", not {verify!r}')
    http = http_options(token, headers, retries, timeout, max_full_download_bytes)
    dense = flag("dense", dense)

    def start(done: _Done, /) -> _native.Running:
        return _native.open_async(source, base, http, dense, threads, verify == "full", done)

    return _Opening(start)


class _Task:
    """A task of the native module that has been started."""

    _running: _native.Running

    async def wait(self) -> Any:
        raise NotImplementedError

    def cancel(self) -> None:
        self._running.cancel()


async def _run(start: _Start) -> Any:
    return await _started(start).wait()


def _started(start: _Start) -> _Task:
    trio = running_trio()
    return _AsyncioTask(start) if trio is None else _TrioTask(start, trio)


class _AsyncioTask(_Task):
    def __init__(self, start: _Start) -> None:
        loop = asyncio.get_running_loop()
        self._future: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()

        def done(result: Any, error: BaseException | None) -> None:
            try:
                loop.call_soon_threadsafe(self._future.set_result, (result, error))
            except RuntimeError:
                # The loop has been closed, so nothing waits.
                pass

        self._running = start(done)

    async def wait(self) -> Any:
        cancelled: asyncio.CancelledError | None = None
        while not self._future.done():
            try:
                await asyncio.wait([self._future])
            except asyncio.CancelledError as error:
                # The requests are closed soon, so a second cancellation can wait.
                cancelled = error
                self.cancel()
        if cancelled is not None:
            raise cancelled
        return _result(*self._future.result())


class _TrioTask(_Task):
    def __init__(self, start: _Start, trio: Any) -> None:
        self._trio = trio
        self._event = trio.Event()
        self._outcome: tuple[Any, BaseException | None] = None, None
        token = trio.lowlevel.current_trio_token()

        def finish(result: Any, error: BaseException | None) -> None:
            self._outcome = result, error
            self._event.set()

        def done(result: Any, error: BaseException | None) -> None:
            try:
                token.run_sync_soon(finish, result, error)
            except trio.RunFinishedError:
                # The run has ended, so nothing waits.
                pass

        self._running = start(done)

    async def wait(self) -> Any:
        try:
            await self._event.wait()
        except self._trio.Cancelled:
            self.cancel()
            with self._trio.CancelScope(shield=True):
                await self._event.wait()
            raise
        return _result(*self._outcome)


def _result(result: Any, error: BaseException | None) -> Any:
    if error is not None:
        raise error
    if result is None:
        raise ZstnError("the work was cancelled", "cancelled")
    return result
