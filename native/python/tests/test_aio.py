"""Reading in asyncio and trio."""

from __future__ import annotations

import asyncio
import contextvars
import io
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import pytest
from checkpoint_folders import write_checkpoint
from conftest import assert_same, make_tensors
from range_server import Address, Handler, serve

import zstn
import zstn.aio
import zstn.numpy

try:
    import trio  # noqa: F401

    BACKENDS = ["asyncio", "trio"]
except ImportError:
    BACKENDS = ["asyncio"]


@pytest.fixture(params=BACKENDS)
def run(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Returns a function that runs an asynchronous function."""

    def run(function: Callable[..., Awaitable[Any]], *arguments: Any) -> Any:
        return anyio.run(function, *arguments, backend=request.param)

    return run


@pytest.fixture
def address(packed: Path) -> Iterator[Address]:
    with serve(packed.parent) as address:
        yield address


def sources(packed: Path, address: Address) -> list[Any]:
    return [packed, str(packed), f"{address}/model.zstn", packed.read_bytes(), io.BytesIO(packed.read_bytes())]


def test_all_inputs_have_the_same_tensors(
    packed: Path, address: Address, tensors: dict[str, np.ndarray], run: Callable[..., Any]
) -> None:
    async def read(source: Any) -> dict[str, np.ndarray]:
        async with zstn.aio.open(source) as model:
            assert len(model) == len(tensors) and set(model) == set(tensors)
            assert "ids" in model and "none" not in model
            assert model["ids"].shape == (2, 3, 4)
            assert (model.kind, model.metadata) == ("zstn", {"format": "np"})
            assert bytes(memoryview(await model.read("bytes"))) == tensors["bytes"].tobytes()
            return {name: await model.numpy(name) for name in model}

    for source in sources(packed, address):
        assert_same(run(read, source), tensors)


def test_the_base_of_a_delta_may_be_in_other_files(tmp_path: Path, run: Callable[..., Any]) -> None:
    base = write_checkpoint(tmp_path / "base", shards=3)
    tensors = make_tensors()
    tensors["wte.weight"][::9] *= 1.01
    tuned, delta = tmp_path / "tuned.safetensors", tmp_path / "tuned.z4dm"
    zstn.numpy.save_file(tensors, tuned)
    zstn.pack(tuned, delta, base=base)

    async def read(*bases: Path) -> dict[str, np.ndarray]:
        async with zstn.aio.open(delta, base=bases) as model:
            return {name: await model.numpy(name) for name in model}

    assert_same(run(read, base), tensors)
    with zstn.open(delta, base=base) as model:
        assert_same({name: model.numpy(name) for name in model}, tensors)
    zstn.unpack(delta, tmp_path / "back", base=base)
    assert (tmp_path / "back").read_bytes() == tuned.read_bytes()
    other = write_checkpoint(tmp_path / "other", shards=2, seed=1)
    with pytest.raises(zstn.ZstnError) as error:
        run(read, other)
    assert error.value.code == "wrong_base"


def test_a_merge_has_several_bases(tmp_path: Path, run: Callable[..., Any]) -> None:
    sources = [make_tensors(), make_tensors()]
    noise = np.random.default_rng(5).normal(0, 0.1, sources[1]["wte.weight"].shape)
    sources[1]["wte.weight"] += noise.astype(np.float32)
    merged = make_tensors()
    merged["wte.weight"] = np.float32(0.3) * sources[0]["wte.weight"] + np.float32(0.7) * sources[1]["wte.weight"]
    bases = [tmp_path / "a.zstn", tmp_path / "b.safetensors"]
    for path, tensors in zip(bases, sources, strict=True):
        zstn.numpy.save_file(tensors, path)
    plain, delta = tmp_path / "merged.safetensors", tmp_path / "merged.z4dm"
    zstn.numpy.save_file(merged, plain)
    report = zstn.pack(plain, delta, base=bases)
    assert report.packed_bytes * 20 < report.original_bytes

    async def read(*bases: Path) -> dict[str, np.ndarray]:
        async with zstn.aio.open(delta, base=list(bases)) as model:
            return {name: await model.numpy(name) for name in model}

    assert_same(run(read, *bases), merged)
    with zstn.open(delta, base=bases) as model:
        assert_same({name: model.numpy(name) for name in model}, merged)
        assert np.array_equal(model.slice("wte.weight")[5:9], merged["wte.weight"][5:9])
    zstn.unpack(delta, tmp_path / "back", base=bases)
    assert (tmp_path / "back").read_bytes() == plain.read_bytes()
    for wrong in (bases[:1], bases[::-1]):
        with pytest.raises(zstn.ZstnError) as error:
            zstn.unpack(delta, tmp_path / "wrong", base=wrong)
        assert error.value.code == "wrong_base"


INDICES: list[Any] = [
    3, -1, slice(10, 20), slice(None, None, -7), [3, 250, 4, 3], np.array([0, 300]), slice(5, 5),
    np.s_[7:90, ::3], np.s_[..., 2], np.s_[[1, 2, 299], 5], np.s_[:, [3, 1]], None,
    np.s_[[5, 200], [7, 8]], np.arange(301) % 50 == 3,
]  # fmt: skip


def test_rows(
    packed: Path, address: Address, tensors: dict[str, np.ndarray], run: Callable[..., Any]
) -> None:
    async def read(source: Any) -> None:
        async with zstn.aio.open(source) as model:
            for index in INDICES:
                found = await model.rows("wte.weight", index)
                np.testing.assert_array_equal(found, tensors["wte.weight"][index], str(index))
            assert (await model.rows("scale", ())) == tensors["scale"]
            assert (await model.rows("empty", slice(None))).shape == (0, 3)
            with pytest.raises(zstn.SliceError):
                await model.rows("wte.weight", 301)

    for source in (packed, f"{address}/model.zstn"):
        run(read, source)


def test_only_blocks_with_selected_elements_are_fetched(tmp_path: Path, run: Callable[..., Any]) -> None:
    weight = np.random.default_rng(0).standard_normal((4, 8192, 64)).astype(np.float32)
    zstn.numpy.save_file({"weight": weight}, tmp_path / "big.zstn")
    indices = (
        np.s_[2, [7, 8, 4000]], np.s_[:, 100:110], np.s_[1:3, -1, ::2], np.s_[..., [8000, 3], :5],
        np.s_[[3, 0], [9, 8000], 1],
    )  # fmt: skip

    async def read(address: Address) -> list[int]:
        sent = []
        for index in indices:
            async with zstn.aio.open(f"{address}/big.zstn") as model:
                address.sent()
                np.testing.assert_array_equal(await model.rows("weight", index), weight[index])
                sent.append(address.sent())
        return sent

    with serve(tmp_path) as address:
        for index, sent in zip(indices, run(read, address), strict=True):
            tensor = zstn.open(f"{address}/big.zstn").slice("weight")
            address.sent()
            np.testing.assert_array_equal(tensor[index], weight[index])
            assert 0 < sent <= address.sent() < weight.nbytes


def test_a_stream_has_all_tensors_in_order(
    packed: Path, address: Address, tensors: dict[str, np.ndarray], run: Callable[..., Any]
) -> None:
    async def read(ahead: int) -> None:
        async with zstn.aio.open(f"{address}/model.zstn") as model:
            found = {name: tensor async for name, tensor in model.stream(ahead=ahead)}
            assert list(found) == model.keys()
            assert_same(found, tensors)
            some = [name async for name, _ in model.stream(["ids", "mask"])]
            assert some == ["ids", "mask"]
            async with aclosing(model.stream(ahead=ahead)) as started:
                async for _ in started:
                    break
            with pytest.raises(zstn.TensorNotFoundError):
                async for _ in model.stream(["ids", "none"]):
                    pass

    for ahead in (1, 3, 100):
        run(read, ahead)


def test_many_tasks_read_at_the_same_time(
    address: Address, tensors: dict[str, np.ndarray], run: Callable[..., Any]
) -> None:
    async def read() -> None:
        model = await zstn.aio.open(f"{address}/model.zstn")
        found: dict[str, np.ndarray] = {}

        async def one(name: str) -> None:
            found[name] = await model.numpy(name)

        async with anyio.create_task_group() as group:
            for name in model:
                group.start_soon(one, name)
        assert_same(found, tensors)
        await model.close()

    run(read)


def test_errors_are_those_of_the_synchronous_functions(
    tmp_path: Path, packed: Path, run: Callable[..., Any]
) -> None:
    async def fail() -> None:
        with pytest.raises(FileNotFoundError):
            await zstn.aio.open(tmp_path / "none.zstn")
        with pytest.raises(zstn.ZstnError) as caught:
            await zstn.aio.open(b"not a model")
        with pytest.raises(zstn.ZstnError) as expected:
            zstn.open(b"not a model")
        assert (str(caught.value), caught.value.code) == (str(expected.value), expected.value.code)
        with pytest.raises(ValueError, match="verify"):
            zstn.aio.open(packed, verify="silly")  # type: ignore[arg-type]
        async with zstn.aio.open(packed) as model:
            for read in (model.read, model.numpy, model.__getitem__):
                with pytest.raises(zstn.TensorNotFoundError) as missing:
                    await read("wte.weigh")  # type: ignore[misc]
                with zstn.open(packed) as same, pytest.raises(zstn.TensorNotFoundError) as expected:
                    same.read("wte.weigh")
                assert str(missing.value) == str(expected.value)
        with pytest.raises(AttributeError, match="`model = await zstn.aio.open"):
            zstn.aio.open(packed).numpy("wte.weight")  # type: ignore[attr-defined]
        with pytest.raises(TypeError, match="async with"):
            with zstn.aio.open(packed):  # type: ignore[attr-defined]
                pass
        with pytest.raises(zstn.ZstnError, match="closed"):
            await model.read("wte.weight")
        assert "closed" in repr(model)

    run(fail)


def test_a_device_that_a_framework_does_not_have(packed: Path, run: Callable[..., Any]) -> None:
    async def fail() -> None:
        async with zstn.aio.open(packed) as model:
            for call in (
                lambda: model.tensor("ids", "numpy", "cuda"),
                lambda: model.rows("ids", 0, "numpy", "cuda"),
                lambda: anext(model.stream(None, "numpy", "cuda")),
            ):
                with pytest.raises(zstn.ZstnError, match="Device cuda is not supported"):
                    await call()

    run(fail)


def test_a_call_in_a_thread(tmp_path: Path, plain: Path, run: Callable[..., Any]) -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable")
    found: list[str] = []

    async def call() -> None:
        variable.set("value")
        report = await zstn.to_thread(
            zstn.pack, plain, tmp_path / "a.zstn", progress=lambda *_: found.append(variable.get())
        )
        assert report.files[0].storage == "indexed" and set(found) == {"value"}
        with pytest.raises(zstn.TensorNotFoundError):
            await zstn.to_thread(zstn.open(tmp_path / "a.zstn").read, "none")

    run(call)


def test_a_cancelled_task_ends_a_call_in_a_thread(tmp_path: Path, run: Callable[..., Any]) -> None:
    source, out = tmp_path / "a.safetensors", tmp_path / "out"
    tensors = {f"t{n}": np.random.default_rng(n).random((256, 1024)) for n in range(24)}
    zstn.numpy.save_file(tensors, source)
    out.mkdir()
    calls: list[int] = []
    errors: list[BaseException] = []
    begun = threading.Event()

    def progress(done: int, total: int) -> None:
        calls.append(done)
        begun.set()

    async def pack() -> None:
        try:
            await zstn.to_thread(
                zstn.pack, source, out / "a.zstn", effort="max", threads=1, progress=progress
            )
        except BaseException as error:
            errors.append(error)
            # The work has stopped when the task receives the cancellation.
            errors_after.append(len(calls))
            raise

    errors_after: list[int] = []

    async def cancel() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(pack)
            await anyio.to_thread.run_sync(begun.wait)
            group.cancel_scope.cancel()
        assert [type(error) for error in errors] == [anyio.get_cancelled_exc_class()]
        assert errors_after == [len(calls)]
        # A task that is cancelled already does not begin.
        with anyio.CancelScope() as scope:
            scope.cancel()
            await zstn.to_thread(calls.append, -1)
        assert scope.cancelled_caught

    run(cancel)
    assert list(out.iterdir()) == []


class Stalling(Handler):
    """Answers requests, or, once `stalls` is set, waits until the client closes the
    connection."""

    stalls = False
    reached: threading.Event
    closed: threading.Event

    def do_GET(self) -> None:
        if not self.stalls:
            super().do_GET()
            return
        self.reached.set()
        # The client sends nothing more, so this returns when it closes the connection.
        if not self.rfile.read(1):
            self.closed.set()
        self.close_connection = True


def test_a_cancelled_task_closes_its_requests(packed: Path, run: Callable[..., Any]) -> None:
    class Server(Stalling):
        reached, closed = threading.Event(), threading.Event()

    async def read(address: Address) -> None:
        model = await zstn.aio.open(f"{address}/model.zstn")
        address.handler.stalls = True  # type: ignore[attr-defined]
        async with anyio.create_task_group() as group:
            group.start_soon(model.read, "wte.weight")
            await anyio.to_thread.run_sync(Server.reached.wait)
            group.cancel_scope.cancel()
        assert await anyio.to_thread.run_sync(Server.closed.wait, 10)

    with serve(packed.parent, Server) as address:
        run(read, address)


def test_a_cancelled_open_and_stream(packed: Path) -> None:
    async def read() -> None:
        for _ in range(20):
            task = asyncio.create_task(_drain(packed))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(read())


async def _drain(packed: Path) -> None:
    async with zstn.aio.open(packed) as model:
        async for _ in model.stream():
            pass


def test_a_loop_that_is_closed_during_a_read_is_harmless(packed: Path) -> None:
    async def leave() -> None:
        reading = zstn.aio.open(packed)
        asyncio.ensure_future(reading._open())
        await asyncio.sleep(0)

    for _ in range(5):
        asyncio.run(leave())
