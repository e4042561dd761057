"""GGUF and NPY files as NumPy arrays."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zstn
from conftest import assert_same
from range_server import serve

VECTORS = Path(__file__).parents[3] / "tests/vectors"


def vectors(folder: str) -> list[dict[str, Any]]:
    return json.loads((VECTORS / folder / "manifest.json").read_text())["files"]


def sha256(array: np.ndarray) -> str:
    return hashlib.sha256(array.tobytes()).hexdigest()


@pytest.mark.parametrize("vector", vectors("gguf"), ids=lambda vector: vector["file"])
def test_gguf_files_are_arrays_with_the_values_of_llama_cpp(tmp_path: Path, vector: dict[str, Any]) -> None:
    # Under another name, the first of several files opens alone.
    path = tmp_path / "model.gguf"
    path.write_bytes((VECTORS / "gguf" / vector["file"]).read_bytes())
    with zstn.open(path) as model:
        assert model.kind == "gguf"
        assert sorted(model) == sorted(tensor["name"] for tensor in vector["tensors"])
        for tensor in vector["tensors"]:
            name, dtype = tensor["name"], tensor["dtype"]
            info = model[name]
            assert (info.dtype, info.shape) == (dtype, tuple(tensor["shape"]))
            assert info.stored_nbytes == info.original_nbytes == tensor["length"]
            array = model.numpy(name)
            assert array.shape == info.shape and array.nbytes == info.nbytes
            if tensor["stored"] != dtype:
                assert array.dtype == np.float32, tensor["stored"]
            assert sha256(array) == tensor["values_sha256"]
        metadata = vector.get("metadata_text", {})
        assert {key: model.metadata[key] for key in metadata} == metadata
        original = model.metadata
    zstn.pack(path, tmp_path / "model.gguf.zstn")
    with zstn.open(tmp_path / "model.gguf.zstn") as packed:
        assert packed.metadata == original


@pytest.mark.parametrize("ending", ["", ".zstn"])
def test_the_first_of_several_gguf_files_opens_the_model(tmp_path: Path, ending: str) -> None:
    parts = [vector for vector in vectors("gguf") if vector["file"].startswith("split-")]
    for vector in parts:
        part = tmp_path / vector["file"]
        part.write_bytes((VECTORS / "gguf" / vector["file"]).read_bytes())
        if ending:
            zstn.pack(part, f"{part}{ending}")
            part.unlink()
    first, second = (tmp_path / f"{vector['file']}{ending}" for vector in parts)
    expected = {tensor["name"]: tensor for vector in parts for tensor in vector["tensors"]}
    with zstn.open(first) as model:
        assert sorted(model) == sorted(expected)
        for name, tensor in expected.items():
            assert sha256(model.numpy(name)) == tensor["values_sha256"]
    # A folder with the files opens the same model, and a second file opens alone.
    with zstn.open(tmp_path) as model:
        assert sorted(model) == sorted(expected)
    with zstn.open(second) as model:
        assert sorted(model) == sorted(tensor["name"] for tensor in parts[1]["tensors"])
    second.unlink()
    with pytest.raises((OSError, zstn.ZstnError)):
        zstn.open(first)


def test_a_delta_between_gguf_files_is_read_with_its_base(tmp_path: Path) -> None:
    old, new, delta = (tmp_path / name for name in ("old.gguf", "new.gguf", "new.gguf.z4dm"))
    old.write_bytes((VECTORS / "gguf/k-blocks.gguf").read_bytes())
    new.write_bytes(old.read_bytes()[:-1] + b"\x01")
    report = zstn.pack(new, delta, base=old)
    assert (report.files[0].storage, report.files[0].original_kind) == ("delta", "gguf")
    with zstn.open(delta, base=old) as packed, zstn.open(new) as plain:
        assert sorted(packed) == sorted(plain) and packed.metadata == plain.metadata
        for name in plain:
            np.testing.assert_array_equal(packed.numpy(name), plain.numpy(name))
        # The tensors are short, so they share the stored bytes of one record.
        assert 0 < sum(info.stored_nbytes for info in packed.values()) < delta.stat().st_size
    zstn.unpack(delta, tmp_path / "back", base=old)
    assert (tmp_path / "back").read_bytes() == new.read_bytes()


# NumPy warns that it reads a header that Python 2 wrote.
@pytest.mark.filterwarnings("ignore:Reading:UserWarning")
@pytest.mark.parametrize("vector", vectors("npy"), ids=lambda vector: vector["file"])
def test_npy_files_are_the_arrays_that_numpy_loads(vector: dict[str, Any]) -> None:
    path = VECTORS / "npy" / vector["file"]
    with zstn.open(path) as model:
        assert (model.kind, list(model), model[""].dtype) == ("npy", [""], vector["dtype"])
        array = model.numpy("")
    assert array.shape == tuple(vector["shape"])
    assert sha256(array) == vector["values_sha256"]
    # NumPy itself reads neither.
    if vector["stored"] not in ("|V2", "<f1"):
        np.testing.assert_array_equal(array, np.load(path))


def test_rows_of_blocks_fetch_only_those_blocks() -> None:
    with serve(VECTORS) as address:
        model = zstn.open(f"{address}/gguf/k-blocks.gguf")
        for name, info in model.items():
            whole = model.numpy(name)
            tensor = model.slice(name)
            np.testing.assert_array_equal(tensor[1], whole[1])
            np.testing.assert_array_equal(tensor[::2, 100:400], whole[::2, 100:400])
            assert tensor.dtype == np.float32 and tensor.shape == info.shape
        model = zstn.open(f"{address}/npy/fortran.npy")
        expected = np.load(VECTORS / "npy/fortran.npy")
        np.testing.assert_array_equal(model.slice("")[1:, 2], expected[1:, 2])


@pytest.mark.parametrize("folder", ["gguf-bad", "npy-bad"])
def test_damaged_files_are_refused(folder: str) -> None:
    for vector in vectors(folder):
        with pytest.raises(zstn.ZstnError) as error:
            zstn.open(VECTORS / folder / vector["file"])
        assert error.value.code == "malformed", vector["file"]


@pytest.mark.parametrize(
    "source", ["gguf/k-blocks.gguf", "gguf/big-endian.gguf", "npy/fortran-swapped.npy"]
)
@pytest.mark.parametrize("ending", ["safetensors", "zstn"])
def test_conversion_keeps_the_decoded_values(source: str, ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"out.{ending}"
    zstn.convert(VECTORS / source, path)
    with zstn.open(VECTORS / source) as model, zstn.open(path) as converted:
        assert converted.kind == ending and sorted(converted) == sorted(model)
        read = [{name: file.numpy(name) for name in model} for file in (converted, model)]
        assert_same(*read)
