"""``zstn://``, the file system of what a packed model holds."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import io
import multiprocessing
import os
import pickle
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest

import zstn.numpy
from conftest import assert_same, make_tensors

fsspec = pytest.importorskip("fsspec")
safetensors_numpy = pytest.importorskip("safetensors.numpy")

from fsspec.asyn import AsyncFileSystem  # noqa: E402
from fsspec.core import url_to_fs  # noqa: E402
from fsspec.generic import GenericFileSystem, rsync  # noqa: E402

from zstn.fsspec import ZstnFileSystem  # noqa: E402

#: Names that are no file names as they are.
NAMES = [
    "", ".", "..", "../../up", "/root", "a/b", "a", "dense/kernel:0", "x::y", "50%", "%2E", "w*[0]?",
    "naïve ☃", "back\\slash", "trailing/",
]  # fmt: skip


@pytest.fixture(autouse=True)
def fresh_instances() -> Iterator[None]:
    yield
    ZstnFileSystem.clear_instance_cache()
    fsspec.filesystem("memory").store.clear()


class Stored(AsyncFileSystem):
    """An asynchronous file system of files in memory that counts what is read."""

    protocol = "stored"
    files: dict[str, bytes] = {}
    read: list[int] = []

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(path).lstrip("/")

    async def _info(self, path, **_):
        path = self._strip_protocol(path)
        if path not in self.files:
            raise FileNotFoundError(path)
        return {"name": path, "type": "file", "size": len(self.files[path])}

    async def _ls(self, path, detail=True, **_):
        found = [await self._info(name) for name in self.files]
        return found if detail else [entry["name"] for entry in found]

    async def _cat_file(self, path, start=None, end=None, **_):
        part = self.files[self._strip_protocol(path)][start:end]
        self.read.append(len(part))
        return part


@pytest.fixture
def stored(packed: Path) -> type[Stored]:
    fsspec.register_implementation("stored", Stored, clobber=True)
    Stored.files = {"folder/m.zstn": packed.read_bytes()}
    Stored.read = []
    Stored.clear_instance_cache()
    return Stored


def test_fsspec_finds_it_by_its_entry_point() -> None:
    assert fsspec.get_filesystem_class("zstn") is ZstnFileSystem
    assert zstn.fsspec.ZstnFileSystem is ZstnFileSystem


def test_addresses(plain: Path, packed: Path, stored, tensors) -> None:
    memory = fsspec.filesystem("memory")
    memory.pipe_file("/folder/m.zstn", packed.read_bytes())
    for file in [
        packed, packed.as_uri(), "memory://folder/m.zstn", "stored://folder/m.zstn",
        "simplecache::memory://folder/m.zstn", plain,
    ]:  # fmt: skip
        with fsspec.open(f"zstn://model.safetensors::{file}") as opened:
            assert opened.read() == plain.read_bytes()
        with fsspec.open(f"zstn://tensors/wte.weight::{file}") as opened:
            assert opened.read() == tensors["wte.weight"].tobytes()
    for fo in [
        packed, str(packed), packed.as_uri(), packed.read_bytes(), io.BytesIO(packed.read_bytes()),
        fsspec.open("memory://folder/m.zstn"), memory.open("/folder/m.zstn"),
        "simplecache::memory://folder/m.zstn",
    ]:  # fmt: skip
        fs = fsspec.filesystem("zstn", fo=fo)
        assert fs.cat_file("model.safetensors") == plain.read_bytes()
    fs = fsspec.filesystem("zstn", fo="/folder/m.zstn", target_protocol="memory")
    assert_same(safetensors_numpy.load(fs.cat_file("model.safetensors")), tensors)


def test_ranges_are_those_of_the_original(plain: Path, packed: Path, stored) -> None:
    content = plain.read_bytes()
    random = np.random.default_rng(1)
    ends = random.integers(-len(content) - 9, len(content) + 9, (200, 2)).tolist()
    ranges = [(None, None), (5, 5), (9, 3), (None, 8), (-7, None), (8, 8 + 700), *ends]
    for file in (str(packed), "stored://folder/m.zstn", str(plain)):
        fs, path = url_to_fs(f"zstn://model.safetensors::{file}")
        assert path == "model.safetensors"
        expected = [content[start:end] for start, end in ranges]
        for (start, end), part in zip(ranges, expected, strict=True):
            assert fs.cat_file(path, start, end) == part, (start, end)
        starts, stops = zip(*ranges, strict=True)
        assert fs.cat_ranges([path] * len(ranges), list(starts), list(stops)) == expected
        with fs.open(path, block_size=100) as opened, io.BytesIO(content) as other:
            for start, count in random.integers(0, len(content), (50, 2)).tolist():
                opened.seek(start), other.seek(start)
                assert opened.read(count % 3000) == other.read(count % 3000)
            opened.seek(-100, os.SEEK_END)
            assert opened.read() == content[-100:]


def test_what_is_listed_agrees(plain: Path, packed: Path, tensors) -> None:
    fs = fsspec.filesystem("zstn", fo=packed)
    original = fs.info("model.safetensors")
    assert original["size"] == plain.stat().st_size and original["type"] == "file"
    assert original["sha256"] == hashlib.sha256(plain.read_bytes()).hexdigest()
    names = sorted(f"tensors/{name}" for name in tensors)
    assert fs.ls("", detail=False) == ["model.safetensors", "tensors"]
    assert fs.ls("tensors", detail=False) == fs.ls("zstn://tensors/", detail=False) == names
    assert fs.find("") == ["model.safetensors", *names]
    assert fs.glob("tensors/*.weight") == ["tensors/block.weight", "tensors/wte.weight"]
    assert list(fs.walk("")) == [
        ("", ["tensors"], ["model.safetensors"]),
        ("tensors", [], sorted(tensors)),
    ]
    assert fs.isdir("") and fs.isdir("tensors") and not fs.isfile("tensors")
    for path, entry in fs.find("", detail=True).items():
        assert entry == fs.info(path) == fs.ls(path)[0] == fs.info(f"zstn://{path}")
        assert fs.isfile(path) and not fs.isdir(path) and fs.exists(path)
        assert fs.size(path) == len(fs.cat_file(path)) == len(fs.open(path).read())
    weight = fs.info("tensors/wte.weight")
    assert (weight["tensor"], weight["dtype"], weight["shape"]) == ("wte.weight", "F32", (301, 40))
    found = fs.cat("tensors/*")
    assert found == {f"tensors/{name}": array.tobytes() for name, array in tensors.items()}
    assert fs.get_mapper("tensors")["scale"] == tensors["scale"].tobytes()
    # Entries belong to the caller.
    fs.info("tensors/scale")["size"] = fs.ls("tensors")[0]["size"] = -1
    assert fs.du("tensors") == sum(array.nbytes for array in tensors.values())


def test_names_of_tensors_as_paths(tmp_path: Path) -> None:
    tensors = {name: np.full(3, number, np.int16) for number, name in enumerate(NAMES)}
    zstn.numpy.save_file(tensors, tmp_path / "m.zstn")
    fs = fsspec.filesystem("zstn", fo=tmp_path / "m.zstn")
    paths = fs.find("tensors", detail=True)
    assert {entry["tensor"]: path for path, entry in paths.items()} == {
        name: fs.tensor_path(name) for name in NAMES
    }
    assert fs.tensor_path("dense/kernel:0") == "tensors/" + quote("dense/kernel:0", safe="")
    fs.get("tensors", str(tmp_path / "out"), recursive=True)
    assert len(list((tmp_path / "out").iterdir())) == len(NAMES)
    for name, array in tensors.items():
        path = fs.tensor_path(name)
        assert fs.cat(path) == fs.cat_file(path) == array.tobytes()
        assert fs.glob(path) == [path] and path.count("/") == 1
        with fsspec.open(f"zstn://{path}::{tmp_path / 'm.zstn'}") as file:
            assert file.read() == array.tobytes()
        assert (tmp_path / "out" / path.removeprefix("tensors/")).read_bytes() == array.tobytes()
    with pytest.raises(FileNotFoundError, match="that tensor is tensors/dense%2Fkernel%3A0"):
        fs.cat_file("tensors/dense/kernel:0")


def test_no_more_is_read_than_is_asked_for(tmp_path: Path, stored) -> None:
    random = np.random.default_rng(0)
    tensors = {n: random.standard_normal((2048, 512)).astype(np.float32) for n in "abc"}
    zstn.numpy.save_file(tensors, tmp_path / "m.safetensors")
    zstn.pack(tmp_path / "m.safetensors", tmp_path / "m.zstn")
    content = (tmp_path / "m.safetensors").read_bytes()
    packed = stored.files["m.zstn"] = (tmp_path / "m.zstn").read_bytes()
    fs, path = url_to_fs("zstn://model.safetensors::stored://m.zstn")
    assert fs.size(path) == len(content)
    stored.read.clear()
    middle = len(content) // 2
    assert fs.cat_file(path, middle, middle + 100) == content[middle : middle + 100]
    assert 0 < sum(stored.read) < len(packed) // 8
    stored.read.clear()
    assert fs.cat_file(fs.tensor_path("b")) == tensors["b"].tobytes()
    assert sum(stored.read) < len(packed) // 2
    # One after another: every tensor is fetched once, but for its first range.
    stored.read.clear()
    parts = [fs.cat_file(path, at, at + 100_000) for at in range(0, len(content), 100_000)]
    assert b"".join(parts) == content
    assert sum(stored.read) < 1.3 * len(packed) and len(stored.read) < len(parts)


def test_tensors_are_kept_within_their_limit(tmp_path: Path, stored) -> None:
    # One row, which cannot be decoded in parts.
    random = np.random.default_rng(0)
    tensors = {n: random.standard_normal((1, 300_000)).astype(np.float32) for n in "abc"}
    zstn.numpy.save_file(tensors, tmp_path / "m.zstn")
    stored.files["m.zstn"] = (tmp_path / "m.zstn").read_bytes()

    def requests(fs: ZstnFileSystem, names: str) -> int:
        stored.read.clear()
        for name in names:
            start = int(random.integers(1, 1_000_000))
            part = tensors[name].tobytes()[start : start + 100]
            assert fs.cat_file(fs.tensor_path(name), start, start + 100) == part
        return len(stored.read)

    options = {"fo": "m.zstn", "target_protocol": "stored"}
    fs = fsspec.filesystem("zstn", **options)
    fs.ls("")
    assert requests(fs, "abcabccba") == 3
    fs = fsspec.filesystem("zstn", cache_bytes=2_500_000, **options)
    fs.ls("")
    assert requests(fs, "abab") == 2
    assert requests(fs, "cbcb") == 1
    assert requests(fs, "a") == 1
    fs = fsspec.filesystem("zstn", cache_bytes=0, **options)
    fs.ls("")
    assert requests(fs, "aabb") == 2


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
    # Both work on the thread of fsspec's loop.
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


# fsspec leaves the file of its cache open.
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
    # What is open goes on with what it began with.
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


def test_eight_threads(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    # Decoded in parts, as a whole, and many at a time.
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


def test_deltas_and_models_in_several_files(tmp_path: Path, tensors) -> None:
    tuned = {name: array + array.dtype.type(1) for name, array in tensors.items()}
    zstn.numpy.save_file(tensors, tmp_path / "base.safetensors")
    zstn.numpy.save_file(tuned, tmp_path / "tuned.safetensors")
    delta, base = tmp_path / "tuned.z4dm", tmp_path / "base.safetensors"
    zstn.pack(tmp_path / "tuned.safetensors", delta, base=base)
    fs = fsspec.filesystem("zstn", fo=delta, base=str(base))
    content = (tmp_path / "tuned.safetensors").read_bytes()
    assert fs.cat_file("model.safetensors") == content
    with fsspec.open(f"zstn://model.safetensors::{delta}", base=str(base)) as file:
        assert file.read() == content
    with pytest.raises(zstn.ZstnError) as error:
        fsspec.filesystem("zstn", fo=delta).cat_file("model.safetensors")
    assert error.value.code == "needs_base"

    shards = tmp_path / "shards"
    shards.mkdir()
    parts = [dict(list(tensors.items())[:3]), dict(list(tensors.items())[3:])]
    names = [f"model-0000{number}-of-00002.safetensors" for number in (1, 2)]
    weight_map = {}
    for part, name in zip(parts, names, strict=True):
        zstn.numpy.save_file(part, shards / name)
        weight_map |= dict.fromkeys(part, name)
    index = str({"metadata": {}, "weight_map": weight_map}).replace("'", '"')
    (shards / "model.safetensors.index.json").write_text(index)
    zstn.pack(shards, tmp_path / "packed")
    for fo in (tmp_path / "packed", shards / "model.safetensors.index.json"):
        fs = fsspec.filesystem("zstn", fo=fo)
        assert_same(safetensors_numpy.load(fs.cat_file("model.safetensors")), tensors)
        assert "sha256" not in fs.info("model.safetensors")


def test_what_goes_wrong(tmp_path: Path, plain: Path, packed: Path, stored) -> None:
    fs = fsspec.filesystem("zstn", fo=packed)
    for path in ["x", "tensors/x", "model.safetensors/x", "tensors/scale/x"]:
        for call in (fs.info, fs.ls, fs.open, fs.cat_file):
            with pytest.raises(FileNotFoundError):
                call(path)
        assert not fs.exists(path) and not fs.isfile(path)
    for path in ["", "tensors"]:
        for call in (fs.open, fs.cat_file):
            with pytest.raises(IsADirectoryError):
                call(path)
    results = fs.cat_ranges(["tensors/scale", "x"], [0, 0], [2, 2])
    assert results[0] == fs.cat_file("tensors/scale", 0, 2)
    assert isinstance(results[1], FileNotFoundError)
    remote = fsspec.filesystem("zstn", fo="folder/m.zstn", target_protocol="stored")
    results = remote.cat_ranges(["tensors/scale", "x"], 0, 2)
    assert results[0] == fs.cat_file("tensors/scale", 0, 2)
    assert isinstance(results[1], FileNotFoundError)
    with pytest.raises(FileNotFoundError):
        remote.cat_ranges(["x", "y"], 0, 2, on_error="raise")
    with pytest.raises(ValueError):
        remote.cat_ranges(["x", "y"], [0], 2)
    for mode in ("wb", "ab", "r+b"):
        with pytest.raises(OSError, match="zstn.pack"):
            fs.open("model.safetensors", mode)
    with pytest.raises(OSError, match="zstn.pack"):
        fs.pipe_file("tensors/new", b"x")
    for call in (fs.rm, fs.rm_file, fs.touch, lambda path: fs.cp_file(path, path)):
        with pytest.raises(OSError, match="zstn.pack"):
            call("tensors/scale")
    with pytest.raises(ValueError, match="needs a packed file"):
        fsspec.filesystem("zstn")
    with pytest.raises(FileNotFoundError):
        fsspec.filesystem("zstn", fo=tmp_path / "none.zstn").ls("")
    with pytest.raises(FileNotFoundError), fsspec.open("zstn://x::stored://none.zstn"):
        pass
    (tmp_path / "no.zstn").write_bytes(b"something else")
    with pytest.raises(zstn.ZstnError):
        fsspec.filesystem("zstn", fo=tmp_path / "no.zstn").ls("")


def test_the_example_of_the_readme(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    readme = Path(__file__).parent.parent / "README.md"
    examples = re.findall(r"^```python3\n(.*?)^```$", readme.read_text("utf-8"), re.M | re.S)
    assert len(examples) == 1
    monkeypatch.chdir(tmp_path)
    embedding = np.arange(12, dtype=np.float16).reshape(3, 4)
    zstn.numpy.save_file({"embedding": embedding}, "model.zstn")
    names: dict[str, Any] = {}
    exec(compile(examples[0], str(readme), "exec"), names)
    assert_same(names["tensors"], {"embedding": embedding})
    assert Path("embedding.bin").read_bytes() == embedding.tobytes()
    assert capsys.readouterr().out == "tensors/embedding F16 (3, 4)\n"
