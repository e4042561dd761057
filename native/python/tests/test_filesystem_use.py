"""Uses of ``zstn://``: copies, caches, coroutines, threads and processes."""

from __future__ import annotations

import asyncio
import gc
import io
import multiprocessing
import os
import pickle
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import zstn.numpy
from conftest import assert_same, make_tensors

fsspec = pytest.importorskip("fsspec")
safetensors_numpy = pytest.importorskip("safetensors.numpy")

from fsspec.core import url_to_fs  # noqa: E402
from fsspec.generic import GenericFileSystem, rsync  # noqa: E402
from stored_files import fresh_instances, stored  # noqa: E402, F401

from zstn.fsspec import ZstnFileSystem  # noqa: E402


def test_copies_to_files_and_file_systems(tmp_path: Path, plain: Path, packed: Path) -> None:
    content = plain.read_bytes()
    fs = fsspec.filesystem("zstn", fo=packed)
    fs.get("model.safetensors", str(tmp_path / "new" / "a.safetensors"))
    assert (tmp_path / "new" / "a.safetensors").read_bytes() == content
    file = io.BytesIO()
    fs.get_file("model.safetensors", file)
    assert file.getvalue() == content
    fs.get("", str(tmp_path / "all"), recursive=True)
    assert (tmp_path / "all/model.safetensors").read_bytes() == content
    assert len(list((tmp_path / "all/tensors").iterdir())) == len(fs.ls("tensors"))


def test_a_copy_that_fails_leaves_nothing(tmp_path: Path, packed: Path) -> None:
    damaged = bytearray(packed.read_bytes())
    damaged[1000:40_000] = bytes(39_000)
    fs = fsspec.filesystem("zstn", fo=bytes(damaged))
    with pytest.raises(zstn.ZstnError):
        fs.get_file("model.safetensors", tmp_path / "out" / "a.safetensors")
    assert list((tmp_path / "out").iterdir()) == []


def test_coroutines(tmp_path: Path, stored, plain: Path) -> None:
    fs = fsspec.filesystem("zstn", fo="folder/m.zstn", target_protocol="stored")
    expected = {path: fs.cat_file(path) for path in fs.find("")}

    async def read() -> None:
        options = {"target_protocol": "stored", "asynchronous": True}
        fs = fsspec.filesystem("zstn", fo="folder/m.zstn", **options)
        assert await fs._find("") == list(expected)
        assert await fs._cat(list(expected)) == expected
        assert await fs._glob("tensors/wte*") == ["tensors/wte.weight"]
        assert (await fs._info("model.safetensors"))["size"] == plain.stat().st_size
        ranges = await fs._cat_ranges(["model.safetensors"] * 40, list(range(40)), 50)
        assert ranges == [plain.read_bytes()[start:50] for start in range(40)]
        await fs._get("tensors", str(tmp_path / "out"), recursive=True)

    asyncio.run(read())
    assert {f"tensors/{path.name}" for path in (tmp_path / "out").iterdir()} < set(expected)


def test_copies_from_an_asynchronous_file_system_to_another(stored) -> None:
    # Both file systems use the thread of fsspec's loop.
    fs = fsspec.filesystem("zstn", fo="folder/m.zstn", target_protocol="stored")
    generic = GenericFileSystem(default_method="current")
    rsync("zstn://tensors", "memory://copy", fs=generic)
    memory = fsspec.filesystem("memory")
    paths = fs.find("tensors")
    assert paths and [path.replace("tensors", "/copy") for path in paths] == memory.find("/copy")
    for path in paths:
        assert memory.cat_file(path.replace("tensors", "/copy")) == fs.cat_file(path)


def test_caches_of_fsspec(tmp_path: Path, plain: Path, packed: Path) -> None:
    fsspec.filesystem("memory").pipe_file("/m.zstn", packed.read_bytes())
    for cache in ("filecache", "simplecache"):
        folder = tmp_path / cache
        url = f"{cache}::zstn://model.safetensors::memory://m.zstn"
        for _ in range(2):
            with fsspec.open(url, **{cache: {"cache_storage": str(folder)}}) as file:
                assert file.read() == plain.read_bytes()
        assert sum(path.stat().st_size for path in folder.iterdir()) >= plain.stat().st_size
    path = fsspec.open_local(
        "filecache::zstn://model.safetensors::memory://m.zstn",
        filecache={"cache_storage": str(tmp_path / "local"), "check_files": True},
    )
    assert Path(path).read_bytes() == plain.read_bytes()


# fsspec does not close its cache file.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_cache_of_blocks(tmp_path: Path, plain: Path, stored) -> None:
    url = "blockcache::zstn://model.safetensors::stored://folder/m.zstn"
    for _ in range(2):
        with fsspec.open(url, blockcache={"cache_storage": str(tmp_path / "blocks")}) as file:
            assert file.read(1000) == plain.read_bytes()[:1000]
            file.seek(-1000, os.SEEK_END)
            assert file.read() == plain.read_bytes()[-1000:]
    del file
    gc.collect()


def test_files_that_are_replaced(tmp_path: Path) -> None:
    first, second = make_tensors(1), make_tensors(2)
    path = tmp_path / "m.zstn"
    zstn.numpy.save_file(first, path)
    content = path.read_bytes()
    fs, name = url_to_fs(f"zstn://model.safetensors::{path}")
    key, checksum = fs.ukey(name), fs.checksum(name)
    opened = fs.open(name)
    assert_same(safetensors_numpy.load(fs.cat_file(name)), first)
    zstn.numpy.save_file(second, tmp_path / "new.zstn")
    os.replace(tmp_path / "new.zstn", path)
    assert_same(safetensors_numpy.load(fs.cat_file(name)), second)
    assert fs.ukey(name) != key and fs.checksum(name) != checksum
    # An open file continues with the version with which it was opened.
    assert_same(safetensors_numpy.load(opened.read()), first)

    memory = fsspec.filesystem("memory")
    memory.pipe_file("/m.zstn", path.read_bytes())
    fs, name = url_to_fs(f"zstn://{name}::memory://m.zstn")
    assert_same(safetensors_numpy.load(fs.cat_file(name)), second)
    memory.pipe_file("/m.zstn", content)
    fs.invalidate_cache()
    assert_same(safetensors_numpy.load(fs.cat_file(name)), first)


def test_instances_are_shared_and_travel(plain: Path, packed: Path) -> None:
    fs, path = url_to_fs(f"zstn://model.safetensors::{packed}")
    assert url_to_fs(f"zstn://tensors/scale::{packed}")[0] is fs
    assert pickle.loads(pickle.dumps(fs)) is fs
    with fs.open(path) as file:
        file.seek(1000)
        again = pickle.loads(pickle.dumps(file))
        assert again.tell() == 1000 and again.read(50) == file.read(50)
    same = ZstnFileSystem.from_json(fs.to_json())
    assert same.cat_file(path) == plain.read_bytes()
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(fs.cat_file, (path,)) == plain.read_bytes()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_after_a_fork(plain: Path, packed: Path) -> None:
    fs = fsspec.filesystem("zstn", fo=packed)
    with fs.open("model.safetensors") as file:
        assert file.read(100) == plain.read_bytes()[:100]
        child = os.fork()
        if not child:
            rest = file.read() + fs.cat_file("model.safetensors")
            os._exit(7 if rest == plain.read_bytes()[100:] + plain.read_bytes() else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_after_a_fork_while_another_thread_opens_the_model(packed: Path) -> None:
    program = """
        import io, os, sys, threading, fsspec
        data = open(sys.argv[1], "rb").read()
        opening, go_on = threading.Event(), threading.Event()

        class Slow(io.BytesIO):
            def read(self, count=-1):
                if os.getpid() == parent:
                    opening.set()
                    go_on.wait()
                return super().read(count)

        parent = os.getpid()
        class File(io.RawIOBase):
            inner = Slow(data)
            def readable(self): return True
            seekable = readable
            def seek(self, *place): return self.inner.seek(*place)
            def tell(self): return self.inner.tell()
            def read(self, count=-1): return self.inner.read(count)
        fs = fsspec.filesystem("zstn", fo=File())
        thread = threading.Thread(target=fs.ls, args=("",), daemon=True)
        thread.start()
        opening.wait()
        child = os.fork()
        if not child:
            assert fs.ls("tensors")
            os._exit(7)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        go_on.set()
        thread.join()
    """
    command = [sys.executable, "-c", textwrap.dedent(program), str(packed)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.stdout == "7\n", done.stderr


def test_eight_threads(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    # Some tensors are decoded partially, some as a whole, and many at the same time.
    tensors = {"rows": random.standard_normal((4096, 256)).astype(np.float32)}
    tensors["row"] = tensors["rows"][:512].reshape(1, -1)
    tensors |= {f"s{n}": random.standard_normal(1000) for n in range(50)}
    zstn.numpy.save_file(tensors, tmp_path / "m.safetensors")
    zstn.pack(tmp_path / "m.safetensors", tmp_path / "m.zstn")
    content = (tmp_path / "m.safetensors").read_bytes()
    fs = fsspec.filesystem("zstn", fo=tmp_path / "m.zstn", cache_bytes=1 << 20)
    ends = np.sort(random.integers(0, len(content), (300, 2)), axis=1).tolist()
    ends += [(at, at + 65536) for at in range(0, len(content), 65536)]

    def read(ends: tuple[int, int]) -> bytes:
        return fs.cat_file("model.safetensors", *ends)

    with ThreadPoolExecutor(8) as pool:
        for (start, end), part in zip(ends, pool.map(read, ends), strict=True):
            assert part == content[start:end]
