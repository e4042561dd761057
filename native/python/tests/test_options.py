"""Invalid values of options raise errors that name the option."""

from __future__ import annotations

import logging
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

import zstn
import zstn.numpy
import zstn.z4ai
from conftest import make_tensors


def _readers(threads: Any, plain: Path, packed: Path, folder: Path) -> list[Any]:
    out = folder / "out.zstn"
    return [
        lambda: zstn.open(packed, threads=threads),
        lambda: zstn.pack(plain, out, threads=threads),
        lambda: zstn.unpack(packed, folder / "out.safetensors", threads=threads),
        lambda: zstn.verify(packed, threads=threads),
        lambda: zstn.convert(packed, out, threads=threads),
        lambda: zstn.sketch(plain, folder / "out.sketch", threads=threads),
        lambda: zstn.z4ai.compress(b"abc" * 100, threads=threads),
    ]


@pytest.mark.parametrize("threads", [10**6, 1025, -1, 10**30, "x", "4", 1.5, True, None])
def test_threads(threads: Any, tmp_path: Path, plain: Path, packed: Path) -> None:
    calls = _readers(threads, plain, packed, tmp_path)
    if threads is None:
        # z4ai treats this value as its default.
        calls.pop()
    for call in calls:
        with pytest.raises((ValueError, TypeError), match="thread") as error:
            call()
        is_number = type(threads) is int
        assert isinstance(error.value, ValueError) == is_number
    assert not (tmp_path / "out.zstn").exists()


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("memory", -1), ("memory", 0), ("memory", "much"), ("memory", "0"), ("memory", 1.5),
        ("memory", "99999999999999T"), ("memory", True),
        ("overwrite", "no"), ("extended", 1), ("statistics", None),
        ("effort", "silly"), ("effort", 3), ("effort", None),
        ("sha256", b"ab"), ("token", 5), ("headers", ["a"]), ("headers", {"a": 1}),
        ("progress", 3),
    ],
)  # fmt: skip
def test_options_of_pack(option: str, value: Any, tmp_path: Path, plain: Path) -> None:
    options: Any = {option: value}
    with pytest.raises((ValueError, TypeError), match=option) as error:
        zstn.pack(plain, tmp_path / "a.zstn", **options)
    assert "extract" not in str(error.value)
    assert not (tmp_path / "a.zstn").exists()


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("retries", -1), ("retries", 1 << 40), ("retries", "2"), ("timeout", 0), ("timeout", -2),
        ("timeout", "5"), ("timeout", float("nan")), ("max_full_download_bytes", -1),
        ("verify", "none"), ("dense", 1),
    ],
)  # fmt: skip
def test_options_of_open(option: str, value: Any, packed: Path) -> None:
    options: Any = {option: value}
    with pytest.raises((ValueError, TypeError), match=option):
        zstn.open(packed, **options)


def test_arguments_of_other_types(plain: Path, packed: Path) -> None:
    with zstn.open(packed) as model, zstn.safe_open(packed, "np") as file:
        calls: list[Any] = [
            model.__getitem__, model.read, model.numpy, model.tensor, model.slice, model.statistics,
            file.get_tensor, file.get_slice,
        ]  # fmt: skip
        for call in calls:
            with pytest.raises(TypeError, match="the name of a tensor is a string, not 3"):
                call(3)
    for call in (zstn.open, lambda value: zstn.pack(plain, value), lambda value: zstn.pack(value, "a")):
        for value in (3, None, [str(plain)]):
            with pytest.raises(TypeError, match="(in|out)put is a path, an address") as error:
                call(value)
            assert "argument" not in str(error.value)


def test_missing_packages_are_named(plain: Path, packed: Path, tmp_path: Path, monkeypatch) -> None:
    for module in ("tqdm.auto", "fsspec.core", "torch", "tensorflow", "paddle", "numpy"):
        monkeypatch.setitem(sys.modules, module, None)
    with zstn.open(packed) as model:
        for package, call in (
            ("tqdm", lambda: zstn.pack(plain, tmp_path / "a.zstn", progress=True)),
            ("fsspec", lambda: zstn.open("ssh://user:secret@host/model.zstn")),
            ("fsspec", lambda: zstn.open("simplecache::https://host/model.zstn")),
            ("torch", lambda: model.tensor("ids", "torch")),
            ("tensorflow", lambda: zstn.safe_open(packed, "tf").get_tensor("ids")),
            ("paddlepaddle", lambda: zstn.safe_open(packed, "paddle").get_tensor("ids")),
            ("numpy", lambda: model.numpy("ids")),
        ):
            with pytest.raises(ImportError, match=f"need.*`pip install {package}`") as error:
                call()
            assert "secret" not in str(error.value)


def test_sizes_are_numbers_or_texts(tmp_path: Path, plain: Path, packed: Path) -> None:
    for memory in (1 << 28, "256M", "1GiB", np.int64(1 << 28)):
        zstn.pack(plain, tmp_path / "a.zstn", memory=memory)  # type: ignore[arg-type]
        assert (tmp_path / "a.zstn").read_bytes() == packed.read_bytes()


def test_what_is_no_dictionary_of_arrays(tmp_path: Path) -> None:
    ones = np.ones(3)
    for tensors in ([ones], {"a": [1.0]}, {1: ones}, {"a": None}, None):
        with pytest.raises(TypeError, match="tensor"):
            zstn.numpy.save_file(tensors, tmp_path / "a.safetensors")  # type: ignore[arg-type]
    for metadata in ({"a": 1}, {1: "a"}, "a", [("a", "b")]):
        with pytest.raises(TypeError, match="metadata"):
            zstn.numpy.save({"a": ones}, metadata)  # type: ignore[arg-type]
    for filename in (None, 3):
        with pytest.raises(TypeError, match="filename"):
            zstn.numpy.save_file({"a": ones}, filename)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="effort"):
        zstn.numpy.save({"a": ones}, format="zstn", effort="silly")  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("metadata", [None, {}, {"a": "b"}])
def test_metadata_as_safetensors_writes_them(metadata: Any, tmp_path: Path) -> None:
    for tensors in ({}, {"a": np.ones(3)}):
        if not tensors and metadata == {}:
            # safetensors 0.8.0 writes a header that no program can read.
            continue
        expected = safetensors.numpy.save(tensors, metadata)
        assert zstn.numpy.save(tensors, metadata) == expected
        zstn.numpy.save_file(tensors, tmp_path / "a.zstn", metadata)
        zstn.unpack(tmp_path / "a.zstn", tmp_path / "b.safetensors")
        assert (tmp_path / "b.safetensors").read_bytes() == expected


def test_errors_of_the_system_name_the_file(tmp_path: Path, plain: Path) -> None:
    missing = tmp_path / "none" / "a.safetensors"
    for call in (
        lambda: zstn.open(missing),
        lambda: zstn.pack(missing, tmp_path / "a.zstn"),
        lambda: zstn.unpack(missing, tmp_path / "a"),
        lambda: zstn.safe_open(missing, "np"),
    ):
        with pytest.raises(FileNotFoundError) as error:
            call()
        assert error.value.filename == str(missing) and error.value.errno == 2
        assert "No such file or directory" in str(error.value)
    for call in (
        lambda: zstn.numpy.save_file({"a": np.ones(3)}, missing),
        lambda: zstn.pack(plain, missing.with_suffix(".zstn")),
    ):
        with pytest.raises(FileNotFoundError, match="No such file or directory") as error:
            call()
        assert error.value.filename == str(missing.parent)


def test_names_that_mislead(tmp_path: Path, plain: Path, packed: Path) -> None:
    tuned, family = tmp_path / "tuned.safetensors", tmp_path / "family"
    zstn.numpy.save_file(make_tensors(seed=1), tuned)
    family.mkdir()
    auto: dict[str, Any] = {"base": "auto", "family": family}
    for call, expected in (
        (lambda: zstn.pack(plain, tmp_path / "x.zip"), ".zstn, not in .zip"),
        (lambda: zstn.pack(plain, tmp_path / "y.z4dm"), ".zstn, not in .z4dm"),
        (lambda: zstn.pack(plain, tmp_path / "z.z4dm", base=[]), ".zstn, not in .z4dm"),
        (lambda: zstn.pack(plain, tmp_path / "a.z4dm", **auto), ".zstn, not in .z4dm"),
        (lambda: zstn.pack(tuned, tmp_path / "y.zstn", base=plain), ".z4dm, not in .zstn"),
        (lambda: zstn.unpack(packed, tmp_path / "u.zstn"), "its name ends in .zstn"),
        (lambda: zstn.unpack(packed, tmp_path / "u.Z4DM"), "its name ends in .z4dm"),
    ):
        with pytest.warns(UserWarning, match=re.escape(expected)) as warned:
            call()
        assert [warning.filename for warning in warned] == [__file__]
    # A name with an unknown extension, and that of the original, do not cause a warning.
    zstn.pack(plain, tmp_path / "model-v1.2")
    assert zstn.pack(plain, tmp_path / "auto.zstn", **auto).files[0].storage == "indexed"
    zstn.pack(tuned, tmp_path / "tuned.z4dm", base=plain)
    np.savez(tmp_path / "a.npz", a=np.ones(3))
    for name in ("a.npz.zstn", "a.zstn"):
        zstn.pack(tmp_path / "a.npz", tmp_path / name)
        zstn.unpack(tmp_path / name, tmp_path / f"{name}.npz")


def test_a_wrong_base_has_a_code_of_its_own(tmp_path: Path, plain: Path) -> None:
    from zstn.z4ai import delta, model_delta

    base, other, tuned = (tmp_path / f"{name}.safetensors" for name in ("b", "o", "t"))
    for number, path in enumerate((base, other, tuned)):
        array = np.random.default_rng(number).random((64, 64)).astype(np.float16)
        zstn.numpy.save_file({"a": array}, path)
    zstn.pack(tuned, tmp_path / "d.z4dm", base=base)
    packed = model_delta.compress(tuned.read_bytes(), base.read_bytes())
    frame = delta.compress(b"a" * 100, b"b" * 100)
    for call in (
        lambda: zstn.unpack(tmp_path / "d.z4dm", tmp_path / "r", base=other),
        lambda: zstn.verify(tmp_path / "d.z4dm", base=plain),
        lambda: zstn.open(tmp_path / "d.z4dm", base=plain).read("a"),
        lambda: model_delta.decompress(packed, other.read_bytes()),
        lambda: delta.decompress(frame, b"c" * 100),
    ):
        with pytest.raises(zstn.ZstnError) as error:
            call()
        assert error.value.code == "wrong_base", str(error.value)


def test_requests_and_results_are_logged(
    plain: Path, packed: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from range_server import serve

    with serve(packed.parent) as address:
        url = f"{address}/{packed.name}?signature=secret"
        zstn.open(url).read("wte.weight")
        assert caplog.records == []
        with caplog.at_level(logging.DEBUG, "zstn"):
            zstn.open(url).read("wte.weight")
            zstn.pack(plain, tmp_path / "a.zstn")
    texts = [record.getMessage() for record in caplog.records]
    assert any(text.startswith("GET ") and "206" in text for text in texts), texts
    assert any("opened" in text for text in texts) and any("packed" in text for text in texts)
    assert not any("secret" in text for text in texts), texts
