"""The listings and reads of ``zstn://``, the file system of a packed model."""

from __future__ import annotations

import hashlib
import io
import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest

import zstn.numpy
from conftest import assert_same

fsspec = pytest.importorskip("fsspec")
safetensors_numpy = pytest.importorskip("safetensors.numpy")

from fsspec.core import url_to_fs  # noqa: E402
from stored_files import fresh_instances, stored  # noqa: E402, F401

from zstn.fsspec import ZstnFileSystem  # noqa: E402

#: Names of tensors that are not valid file names without encoding.
NAMES = [
    "", ".", "..", "../../up", "/root", "a/b", "a", "dense/kernel:0", "x::y", "50%", "%2E", "w*[0]?",
    "naïve ☃", "back\\slash", "trailing/",
]  # fmt: skip


def test_fsspec_finds_it_by_its_entry_point() -> None:
    assert fsspec.get_filesystem_class("zstn") is ZstnFileSystem
    assert zstn.fsspec.ZstnFileSystem is ZstnFileSystem


def test_the_original_has_the_extension_of_its_format(tmp_path: Path) -> None:
    gguf = Path(__file__).parents[3] / "tests/vectors/gguf/dense-types.gguf"
    packed = tmp_path / "model.gguf.zstn"
    zstn.pack(gguf, packed)
    with fsspec.open(f"zstn://model.gguf::{packed}") as opened:
        assert opened.read() == gguf.read_bytes()
    fs = fsspec.filesystem("zstn", fo=packed)
    assert fs.ls("", detail=False) == ["model.gguf", "tensors"]
    assert fs.info("model.gguf")["sha256"] == hashlib.sha256(gguf.read_bytes()).hexdigest()


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
    # A claimed digest is not shown, since it has not been compared.
    claimed = packed.with_name("claimed.zstn")
    zstn.pack(plain, claimed, sha256=original["sha256"])
    assert "sha256" not in fsspec.filesystem("zstn", fo=claimed).info("model.safetensors")
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
    # The caller may modify the entries it receives.
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
    # Sequential reads fetch every tensor once, except for its first range.
    stored.read.clear()
    parts = [fs.cat_file(path, at, at + 100_000) for at in range(0, len(content), 100_000)]
    assert b"".join(parts) == content
    assert sum(stored.read) < 1.3 * len(packed) and len(stored.read) < len(parts)


def test_tensors_are_kept_within_their_limit(tmp_path: Path, stored) -> None:
    # A tensor with a single row cannot be decoded partially.
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


def test_what_is_refused_as_a_model(packed: Path) -> None:
    # fsspec identifies instances by the text of their arguments, and long arrays with
    # different content have the same text.
    array = np.frombuffer(packed.read_bytes(), np.uint8)
    with pytest.raises(TypeError, match="ndarray"):
        fsspec.filesystem("zstn", fo=array)
    assert fsspec.filesystem("zstn", fo=array.tobytes()).ls("tensors")



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
