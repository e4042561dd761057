"""Saving and loading dictionaries of arrays, as safetensors does."""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

import zstn
import zstn.numpy
from conftest import assert_same


def test_the_same_bytes_as_safetensors(tmp_path: Path, tensors) -> None:
    for metadata in (None, {"key": "value ü"}):
        expected = safetensors.numpy.save(tensors, metadata)
        assert zstn.numpy.save(tensors, metadata) == expected
        zstn.numpy.save_file(tensors, tmp_path / "a.safetensors", metadata)
        assert (tmp_path / "a.safetensors").read_bytes() == expected


@pytest.mark.parametrize("name", ["save", "save_file", "load", "load_file"])
def test_signatures(name: str) -> None:
    theirs = inspect.signature(getattr(safetensors.numpy, name)).parameters
    ours = inspect.signature(getattr(zstn.numpy, name)).parameters
    for parameter, other in zip(theirs.values(), ours.values(), strict=False):
        assert (parameter.name, parameter.kind, parameter.default) == (
            other.name,
            other.kind,
            other.default,
        )
    extra = list(ours.values())[len(theirs) :]
    assert all(parameter.kind is parameter.KEYWORD_ONLY for parameter in extra)


def test_packed_by_name_or_keyword(tmp_path: Path, tensors) -> None:
    zstn.numpy.save_file(tensors, tmp_path / "a.zstn")
    zstn.numpy.save_file(tensors, str(tmp_path / "b"), format="zstn", effort="max")
    zstn.numpy.save_file(tensors, tmp_path / "c.zstn", format="safetensors")
    kinds = {}
    for path in sorted(tmp_path.iterdir()):
        assert_same(zstn.numpy.load_file(path), tensors)
        assert_same(zstn.numpy.load(path.read_bytes()), tensors)
        with zstn.open(path) as model:
            kinds[path.name] = model.kind
    assert kinds == {"a.zstn": "zstn", "b": "zstn", "c.zstn": "safetensors"}
    assert zstn.numpy.save(tensors, format="zstn") == (tmp_path / "a.zstn").read_bytes()
    with pytest.raises(ValueError, match="format"):
        zstn.numpy.save(tensors, format="gz")


def test_arrays_of_every_layout(tmp_path: Path) -> None:
    base = np.arange(48, dtype=np.float32).reshape(6, 8)
    tensors = {
        "columns": base[:, ::2],
        "transposed": base.T,
        "reversed": base[::-1],
        "big": base.astype(">f4"),
        "big, columns": base.astype(">f4")[:, 1::3],
        "read-only": np.broadcast_to(np.float64(2), (3, 2)),
        "none": np.float16(1.5).reshape(()),
    }
    for file in ("a.safetensors", "a.zstn"):
        zstn.numpy.save_file(tensors, tmp_path / file)
        assert_same(zstn.numpy.load_file(tmp_path / file), tensors)
    assert base.flags.writeable and base.dtype.byteorder == "="


def test_what_cannot_be_saved(tmp_path: Path) -> None:
    with pytest.raises(zstn.ZstnError, match="complex128"):
        zstn.numpy.save({"a": np.ones(2, np.complex128)})
    with pytest.raises(TypeError):
        zstn.numpy.save({"a": np.ones(2)}, {"key": 1})  # type: ignore[dict-item]
    with pytest.raises(zstn.ZstnError, match="__metadata__"):
        zstn.numpy.save({"__metadata__": np.ones(2)})
    with pytest.raises(zstn.ZstnError):
        zstn.numpy.load(b"not a file")
    with pytest.raises(TypeError, match="load_file"):
        zstn.numpy.load("a.safetensors")


def test_the_effort_is_checked_even_if_nothing_is_packed(tmp_path: Path, tensors) -> None:
    for call in (
        lambda: zstn.numpy.save({}, effort="zzz"),
        lambda: zstn.numpy.save_file(tensors, tmp_path / "a.safetensors", effort="zzz"),
    ):
        with pytest.raises(ValueError, match="effort must be"):
            call()
    assert not (tmp_path / "a.safetensors").exists()


def test_many_small_and_some_large_tensors(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    tensors = {f"small.{n}": random.standard_normal(n + 1).astype(np.float32) for n in range(200)}
    tensors |= {f"large.{n}": random.standard_normal(1_200_000).astype(np.float32) for n in "ab"}
    zstn.numpy.save_file(tensors, tmp_path / "a.zstn")
    assert_same(zstn.numpy.load_file(tmp_path / "a.zstn"), tensors)


def test_nothing(tmp_path: Path) -> None:
    for file in ("a.safetensors", "a.zstn"):
        zstn.numpy.save_file({}, tmp_path / file)
        assert zstn.numpy.load_file(tmp_path / file) == {}
