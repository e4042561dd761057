"""Slices as arrays, rows that are read separately, pickling, and `help`."""

from __future__ import annotations

import inspect
import pickle
import pydoc
import subprocess
import sys
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

import zstn
import zstn.numpy
from range_server import serve
from zstn._slices import GAP_BYTES

ROWS, COLUMNS = 2048, 1024


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    return (np.random.default_rng(0).standard_normal((ROWS, COLUMNS)) * 0.02).astype(np.float16)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, rows: np.ndarray) -> Path:
    folder = tmp_path_factory.mktemp("rows")
    for name in ("a.zstn", "a.safetensors"):
        zstn.numpy.save_file({"emb": rows}, folder / name)
    return folder


@pytest.mark.parametrize("name", ["a.zstn", "a.safetensors"])
def test_lists_and_steps_fetch_their_rows(name: str, folder: Path, rows: np.ndarray) -> None:
    with serve(folder) as address:
        tensor = zstn.open(f"{address}/{name}").slice("emb")
        address.sent()
        for index, single in (
            ([3, 2000], [3, 2000]),
            (np.array([[1900], [5]]), [5, 1900]),
            (([-1, 3, 3, 0], slice(5, 9)), [0, 3, ROWS - 1]),
            (slice(None, None, 512), range(0, ROWS, 512)),
            (slice(None, None, -700), range(ROWS - 1, 0, -700)),
            ((slice(10, None, 900), [1, 2]), range(10, ROWS, 900)),
            (np.arange(ROWS) % 1000 == 7, [7, 1007, 2007]),
        ):
            single_rows = zstn.open(f"{address}/{name}").slice("emb")
            address.sent()
            for row in single:
                single_rows[row]
            most = address.sent()
            np.testing.assert_array_equal(tensor[index], rows[index])
            # Rows that are close to each other are read together.
            assert 0 < address.sent() <= most + GAP_BYTES, index
        np.testing.assert_array_equal(tensor[[4, 5, 6, 7]], rows[[4, 5, 6, 7]])


def test_the_same_row_is_fetched_once(folder: Path, rows: np.ndarray) -> None:
    with serve(folder) as address:
        tensor = zstn.open(f"{address}/a.zstn").slice("emb")
        first = tensor[3]
        address.sent()
        first.fill(0)
        np.testing.assert_array_equal(tensor[3], rows[3])
        assert address.sent() == 0
        for row in range(0, ROWS, 64):
            tensor[row : row + 64]
        assert sum(map(len, tensor._cache.values())) <= 1 << 20


@pytest.mark.parametrize("dtype", ["F32", "BF16", "F16", "I64", "BOOL"])
def test_any_index_as_numpy_takes_it(dtype: str, tmp_path: Path) -> None:
    import ml_dtypes

    of = {"F32": "f4", "BF16": ml_dtypes.bfloat16, "F16": "f2", "I64": "i8", "BOOL": "?"}
    array = np.random.default_rng(1).integers(0, 9, (40, 3, 5)).astype(of[dtype])
    zstn.numpy.save_file({"a": array}, tmp_path / "a.zstn")
    tensor = zstn.open(tmp_path / "a.zstn").slice("a")
    random = np.random.default_rng(2)
    with mock.patch("zstn._slices.GAP_BYTES", 0), mock.patch("zstn._reader.GAP_BYTES", 0):
        for index in (
            [0, 39, -1], [5], np.array([[1, 2], [3, 38]]), (slice(None, None, 7),),
            slice(39, None, -11), ([3, 30], [0, 2]), ([3, 30], slice(None), [0, 2]),
            (slice(2, 39, 9), [0, 2]), (slice(2, 39, 9), None, 1), (slice(2, 39, 9), slice(None), 3),
            ([7, 9], None), ([7, 9], 1, 2), random.random(40) < 0.2, random.random((40, 3)) < 0.2,
            np.uint8([255 - 220, 2]), (..., [0, 2]), ([1, 30], ...), ([True] * 3 + [False] * 37),
            np.array(3), (np.array([1, 2]), np.array([0, 1]), np.array([4, 4])), slice(0, 0, 9),
        ):  # fmt: skip
            found, expected = tensor[index], array[index]
            assert found.dtype == expected.dtype
            np.testing.assert_array_equal(found, expected, err_msg=repr(index))
        for wrong in ([40], [-41, 0], np.array([1, 99])):
            with pytest.raises(IndexError, match="out of bounds"):
                tensor[wrong]
        for odd in ([0.5], ["a"], np.zeros(3, bool)):
            with pytest.raises(IndexError):
                tensor[odd]


def test_a_slice_is_an_array(plain: Path, tensors) -> None:
    with zstn.open(plain) as model:
        for name, array in tensors.items():
            tensor = model.slice(name)
            assert (tensor.dtype, tensor.shape, tensor.ndim) == (array.dtype, array.shape, array.ndim)
            assert (tensor.size, tensor.nbytes) == (array.size, array.nbytes)
            if array.ndim:
                assert len(tensor) == len(array)
                np.testing.assert_array_equal(np.stack(list(tensor)) if len(array) else array, array)
            else:
                with pytest.raises(TypeError, match="len"):
                    len(tensor)
            found = np.asarray(tensor)
            assert found.dtype == array.dtype
            np.testing.assert_array_equal(found, array)
            np.testing.assert_array_equal(np.from_dlpack(tensor), array)
            np.testing.assert_array_equal(np.asarray(tensor, dtype="f8"), array.astype("f8"))
        with pytest.raises(ValueError, match="copy"):
            np.array(model.slice("ids"), copy=False)
        assert model.slice("ids").get_dtype() == "I64"


def test_pickles(plain: Path, packed: Path, tensors, monkeypatch) -> None:
    monkeypatch.chdir(packed.parent)
    with zstn.open(packed.name, threads=1) as model:
        info = model["wte.weight"]
        tensor = model.slice("wte.weight")
        texts = [pickle.dumps(value) for value in (model, info, tensor)]
    with zstn.safe_open(packed, "np") as file:
        texts.append(pickle.dumps(file.get_slice("wte.weight")))
    with zstn.open(plain.read_bytes()) as model:
        texts.append(pickle.dumps(model.slice("wte.weight")))
    monkeypatch.chdir("/")
    again, same, *slices = map(pickle.loads, texts)
    assert same == info and hash(same) == hash(info) and same.shape == (301, 40)
    np.testing.assert_array_equal(again.numpy("wte.weight"), tensors["wte.weight"])
    for tensor in slices:
        np.testing.assert_array_equal(tensor[7:9], tensors["wte.weight"][7:9])
    with open(packed, "rb") as file, zstn.open(file) as model:
        with pytest.raises(TypeError, match="path or address"):
            pickle.dumps(model)
    with pytest.raises(ValueError, match="dtype"):
        zstn.TensorInfo("a", "F99", [1], 1, 1)


def test_help_where_frameworks_are_missing() -> None:
    program = """
        import sys
        for name in ("jax", "mlx", "torch", "fsspec"):
            sys.modules[name] = None
        import inspect, pydoc, unittest.mock, zstn, zstn.z4ai
        assert "to_thread" in pydoc.plain(pydoc.render_doc(zstn))
        assert "numpy" in dict(inspect.getmembers(zstn))
        assert not hasattr(zstn, "jax") and getattr(zstn, "torch", None) is None
        unittest.mock.create_autospec(zstn)
        pydoc.render_doc(zstn.z4ai)
        inspect.getmembers(zstn.z4ai)
        for name in ("jax", "mlx", "torch"):
            try:
                __import__(f"zstn.{name}")
            except ImportError as error:
                assert name in str(error)
            try:
                getattr(zstn, name)
            except AttributeError as error:
                assert name in str(error)
        exec("from zstn import *", {})
    """
    program = inspect.cleandoc(program)
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True)
    assert pydoc.render_doc(zstn)
