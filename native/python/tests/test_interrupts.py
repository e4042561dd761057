"""Work that an exception ends. Once the caller has the exception, none of its objects
is read and nothing is published."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zstn
import zstn.numpy
import zstn.z4ai.model_delta
from checkpoint_folders import write_checkpoint
from test_process import run

posix = pytest.mark.skipif(sys.platform != "linux", reason="signals, pipes and /proc")


@posix
@pytest.mark.parametrize("signal", ["SIGINT", "SIGALRM"])
@pytest.mark.parametrize("name", ["a.safetensors", "a.zstn"])
def test_a_signal_leaves_the_file_that_is_there(tmp_path: Path, name: str, signal: str) -> None:
    program = """
        import glob, os, pathlib, signal, sys, threading, numpy, zstn.numpy
        folder, target = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[1], sys.argv[2])
        number = getattr(signal, sys.argv[3])
        class Ended(Exception):
            pass
        def end(*_):
            raise Ended
        signal.signal(number, end)
        zstn.numpy.save_file({"before": numpy.ones(3)}, target)
        before = target.read_bytes()
        # Writing or packing it takes a while.
        part = numpy.random.default_rng(0).random(1 << 17)
        tensors = {f"t{n}": numpy.tile(part, 16) for n in range(16)}
        def when_begun():
            while not list(folder.glob(".*.part")):
                pass
            os.kill(os.getpid(), number)
        threading.Thread(target=when_begun, daemon=True).start()
        try:
            zstn.numpy.save_file(tensors, target)
        except Ended:
            print(sorted(os.listdir(folder)), target.read_bytes() == before)
            for array in tensors.values():
                array.fill(7)
            def names():
                for path in glob.glob("/proc/self/task/*/comm"):
                    try:
                        yield open(path).read()
                    except OSError:
                        pass
            while "zstn-call\\n" in names():
                pass
            print(sorted(os.listdir(folder)), target.read_bytes() == before)
    """
    done = run(program, tmp_path, name, signal)
    assert done.stdout == f"['{name}'] True\n" * 2, done.stderr


@posix
def test_a_signal_ends_saving_to_a_pipe_that_nobody_reads(tmp_path: Path) -> None:
    program = """
        import os, signal, sys, threading, numpy, zstn.numpy
        os.mkfifo(sys.argv[1])
        array = numpy.zeros(1 << 20)
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            zstn.numpy.save_file({"a": array}, sys.argv[1])
        except KeyboardInterrupt:
            array.fill(7)
            with open(sys.argv[1], "rb") as pipe:
                print(b"\\x1c\\x40" in pipe.read())
            print("stopped", flush=True)
    """
    done = run(program, tmp_path / "pipe")
    assert (done.stdout, done.returncode) == ("False\nstopped\n", 0), done.stderr


@posix
def test_a_signal_ends_writing_to_an_object_that_waits() -> None:
    program = """
        import glob, os, signal, threading, numpy, zstn, zstn.numpy
        entered, released, calls = threading.Event(), threading.Event(), []
        class Waits:
            def write(self, data):
                calls.append(len(data))
                entered.set()
                released.wait()
                return len(data)
        def when_entered():
            entered.wait()
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=when_entered, daemon=True).start()
        memory = bytearray(zstn.numpy.save({"a": numpy.random.default_rng(0).random(1 << 20)}))
        try:
            zstn.pack(memory, Waits())
        except KeyboardInterrupt:
            memory[:] = bytes(len(memory))
            released.set()
            def names():
                for path in glob.glob("/proc/self/task/*/comm"):
                    try:
                        yield open(path).read()
                    except OSError:
                        pass
            while "zstn-call\\n" in names():
                pass
            print(len(calls), flush=True)
    """
    done = run(program)
    assert (done.stdout, done.returncode) == ("1\n", 0), done.stderr


class Last(Exception):
    pass


def at_the_end(done: int, total: int) -> None:
    if done == total:
        raise Last


def _verbs(folder: Path, plain: Path, packed: Path) -> dict[str, Callable[[Any, Any], object]]:
    """Calls of every function with an output and a progress callback."""
    delta, base = folder / "in.z4dm", folder / "base.safetensors"
    base.write_bytes(plain.read_bytes())
    zstn.pack(plain, delta, base=base)
    memory = bytearray(plain.read_bytes())
    return {
        "a.zstn": lambda dst, bar: zstn.pack(plain, dst, progress=bar),
        "m.zstn": lambda dst, bar: zstn.pack(memory, dst, progress=bar),
        "a.z4dm": lambda dst, bar: zstn.pack(plain, dst, base=base, progress=bar),
        "a.safetensors": lambda dst, bar: zstn.unpack(packed, dst, progress=bar),
        "d.safetensors": lambda dst, bar: zstn.unpack(delta, dst, base=base, progress=bar),
        "c.safetensors": lambda dst, bar: zstn.convert(packed, dst, to="safetensors", progress=bar),
        "c.zt": lambda dst, bar: zstn.convert(plain, dst, to="ztensor", progress=bar),
    }


def test_the_last_report_comes_before_the_file(tmp_path: Path, plain: Path, packed: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    for name, verb in _verbs(tmp_path, plain, packed).items():
        with pytest.raises(Last):
            verb(out / name, at_the_end)
        assert os.listdir(out) == [], name
        (out / name).write_bytes(b"before")
        with pytest.raises(Last):
            verb(out / name, at_the_end)
        assert os.listdir(out) == [name] and (out / name).read_bytes() == b"before"
        reports: list[tuple[int, int]] = []
        verb(out / name, lambda done, total, reports=reports: reports.append((done, total)))
        assert (out / name).read_bytes() != b"before"
        done, total = reports[-1]
        assert done == total
        (out / name).unlink()
    with pytest.raises(Last):
        zstn.sketch(plain, out / "a.sketch", progress=at_the_end)
    with pytest.raises(Last):
        zstn.pack(write_checkpoint(tmp_path / "folder", 2), out / "folder", progress=at_the_end)
    with pytest.raises(Last):
        zstn.verify(packed, progress=at_the_end)
    with pytest.raises(Last):
        zstn.pack(plain, "memory://interrupts/a.zstn", progress=at_the_end)
    with pytest.raises(zstn.ZstnError, match="no such object"):
        zstn.open("memory://interrupts/a.zstn")
    assert os.listdir(out) == []


class Returns:
    """A writer whose calls return a given value."""

    def __init__(self, result: Any) -> None:
        self.result, self.calls = result, 0

    def write(self, data: bytes) -> Any:
        self.calls += 1
        return self.result(data) if callable(self.result) else self.result


@pytest.mark.parametrize(
    "result",
    [-1, 0, None, True, "5", 1.5, b"", 1 << 70, lambda data: len(data) + 1],
    ids=["-1", "0", "None", "True", "text", "float", "bytes", "huge", "more"],
)
def test_a_writer_that_has_not_taken_the_bytes(
    tmp_path: Path, plain: Path, packed: Path, result: Any
) -> None:
    for name, verb in _verbs(tmp_path, plain, packed).items():
        writer = Returns(result)
        with pytest.raises((OSError, TypeError), match="write"):
            verb(writer, None)
        assert writer.calls == 1, name
    writer = Returns(result)
    with pytest.raises((OSError, TypeError), match=r"write\(\) returned"):
        zstn.numpy.save_file({"a": np.ones(3)}, writer)  # type: ignore[arg-type]
    assert writer.calls == 1


def test_a_writer_gets_nothing_after_an_exception(tmp_path: Path, plain: Path, packed: Path) -> None:
    class Fails:
        calls = 0

        def write(self, data: bytes) -> int:
            self.calls += 1
            raise Last

    for name, verb in _verbs(tmp_path, plain, packed).items():
        writer = Fails()
        with pytest.raises(Last):
            verb(writer, None)
        assert writer.calls == 1, name

    taken: list[bytes] = []

    class Takes:
        def write(self, data: bytes) -> int:
            taken.append(data)
            return len(data)

    def at_once(done: int, total: int) -> None:
        raise Last

    tensors = {f"t{n}": np.random.default_rng(n).random((256, 1024)) for n in range(24)}
    zstn.numpy.save_file(tensors, tmp_path / "large.safetensors")
    with pytest.raises(Last):
        zstn.pack(tmp_path / "large.safetensors", Takes(), effort="max", progress=at_once)
    count = len(taken)
    zstn.verify(packed)
    assert len(taken) == count < 24


def test_short_writes_are_continued(plain: Path, packed: Path) -> None:
    taken = bytearray()

    class Short:
        def write(self, data: bytes) -> np.int64:
            part = data[: max(1, len(data) // 2)]
            taken.extend(part)
            # Any integer type of Python is accepted.
            return np.int64(len(part))

    zstn.pack(plain, Short())  # type: ignore[arg-type]
    assert taken == packed.read_bytes()


def test_a_cancelled_task_ends_the_work(tmp_path: Path) -> None:
    tensors = {f"t{n}": np.random.default_rng(n).random((256, 1024)) for n in range(24)}
    source, out = tmp_path / "a.safetensors", tmp_path / "out"
    zstn.numpy.save_file(tensors, source)
    out.mkdir()

    async def cancel(call: Callable[..., Any], *args: Any, **options: Any) -> list[str]:
        begun = asyncio.Event()
        loop = asyncio.get_running_loop()

        def progress(done: int, total: int) -> None:
            loop.call_soon_threadsafe(begun.set)

        task = asyncio.create_task(zstn.to_thread(call, *args, progress=progress, **options))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return os.listdir(out)

    assert asyncio.run(cancel(zstn.pack, source, out / "a.zstn", effort="max")) == []
    report = asyncio.run(zstn.to_thread(zstn.pack, source, out / "a.zstn", effort="fast"))
    assert report.tensors == 24
    with pytest.raises(zstn.ZstnError, match="no tensor named"):
        asyncio.run(zstn.to_thread(zstn.open(out / "a.zstn").read, "none"))


def test_a_cancelled_task_ends_saving(tmp_path: Path) -> None:
    part = np.random.default_rng(0).random(1 << 17)
    tensors = {f"t{n}": np.tile(part, 16) for n in range(16)}

    async def save() -> None:
        target = tmp_path / "a.safetensors"
        task = asyncio.create_task(zstn.to_thread(zstn.numpy.save_file, tensors, target))
        while not os.listdir(tmp_path):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert os.listdir(tmp_path) == []

    asyncio.run(save())


def test_an_exception_in_another_thread(tmp_path: Path, plain: Path) -> None:
    """Progress is reported on the calling thread, even if it is not the main thread."""
    errors: list[BaseException] = []

    def call() -> None:
        try:
            zstn.pack(plain, tmp_path / "a.zstn", progress=at_the_end)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert [type(error) for error in errors] == [Last]
    assert not (tmp_path / "a.zstn").exists()
