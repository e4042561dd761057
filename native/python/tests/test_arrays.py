"""Slices as arrays, rows that are read separately, pickling, and `help`."""

from __future__ import annotations

import inspect
import io
import multiprocessing
import operator
import os
import pickle
import pydoc
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zstn
import zstn.numpy
from range_server import serve

ROWS, COLUMNS = 2048, 1024

#: Ranges are read together if at most this many bytes separate them.
GAP_BYTES = 64 << 10


def installed(*names: str) -> pytest.MarkDecorator:
    """Skips a test if a package is missing, but not if the package cannot be imported."""
    missing = [name for name in names if find_spec(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    return (np.random.default_rng(0).standard_normal((ROWS, COLUMNS)) * 0.02).astype(np.float16)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, rows: np.ndarray) -> Path:
    folder = tmp_path_factory.mktemp("rows")
    for name in ("a.zstn", "a.safetensors"):
        zstn.numpy.save_file({"emb": rows, "one block": rows[:200]}, folder / name)
    return folder


@pytest.mark.parametrize("name", ["a.zstn", "a.safetensors"])
def test_lists_and_steps_fetch_their_rows(name: str, folder: Path, rows: np.ndarray) -> None:
    with serve(folder) as address:

        def fetched(*indices: Any) -> int:
            """Returns the number of bytes that are fetched for indices of a new reader."""
            tensor = zstn.open(f"{address}/{name}").slice("emb")
            address.sent()
            for index in indices:
                np.testing.assert_array_equal(tensor[index], rows[index])
            return address.sent()

        for index, single in (
            ([3, 2000], [3, 2000]),
            (np.array([[1900], [5]]), [5, 1900]),
            (([-1, 3, 3, 0], slice(5, 9)), [0, 3, ROWS - 1]),
            (slice(None, None, 512), range(0, ROWS, 512)),
            (slice(None, None, -700), range(ROWS - 1, 0, -700)),
            ((slice(10, None, 900), [1, 2]), range(10, ROWS, 900)),
            (np.arange(ROWS) % 1000 == 7, [7, 1007, 2007]),
            ((..., slice(700, 1800, 1000), [1, 2]), [700, 1700]),
        ):
            most = sum(fetched(row) for row in single)
            # Rows that are close to each other are read together.
            assert 0 < fetched(index) <= most + GAP_BYTES, index
        for empty in ([], slice(9, 3), np.zeros(ROWS, bool), ([], [])):
            assert fetched(empty) == 0


def test_indices_of_one_reader_share_decoded_blocks(folder: Path, rows: np.ndarray) -> None:
    with serve(folder) as address:
        model = zstn.open(f"{address}/a.zstn")
        first = model.slice("emb")[3]
        address.sent()
        first.fill(0)
        np.testing.assert_array_equal(model.slice("emb")[3], rows[3])
        assert address.sent() == 0
        # The second row of a block fetches all of it, for the next ones.
        tensor = model.slice("emb")
        np.testing.assert_array_equal(tensor[100], rows[100])
        address.sent()
        for index in (0, slice(0, 256), [7, 255, 1], (slice(200, None, -3), 5)):
            np.testing.assert_array_equal(tensor[index], rows[index])
        assert address.sent() == 0
        tensor = model.slice("one block")
        for index in (0, 199, [100, 3]):
            np.testing.assert_array_equal(tensor[index], rows[:200][index])


def test_close_blocks_take_one_request(folder: Path) -> None:
    with serve(folder) as address:
        tensor = zstn.open(f"{address}/a.zstn").slice("emb")
        requests: list[str] = []
        get = address.handler.do_GET
        address.handler.do_GET = lambda self: (requests.append(self.path), get(self))[1]
        tensor[::32]
        # The blocks of each plane are adjacent.
        assert len(requests) <= 2


@pytest.mark.parametrize(
    "dtype,shape",
    [
        *((dtype, (40, 3, 5)) for dtype in ("F32", "BF16", "F16", "I64", "BOOL")),
        ("F16", (40, 300, 130)),
        ("F32", (40, 300, 130)),
    ],
)
def test_any_index_as_numpy_takes_it(dtype: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    import ml_dtypes

    of = {"F32": "f4", "BF16": ml_dtypes.bfloat16, "F16": "f2", "I64": "i8", "BOOL": "?"}
    random = np.random.default_rng(1)
    values = random.integers(0, 9, shape) if shape[1] == 3 else random.standard_normal(shape)
    array = values.astype(of[dtype])
    for name in ("a.zstn", "a.safetensors"):
        zstn.numpy.save_file({"a": array}, tmp_path / name)
        tensor = zstn.open(tmp_path / name).slice("a")
        for index in (
            [0, 39, -1], [5], np.array([[1, 2], [3, 38]]), (slice(None, None, 7),),
            slice(39, None, -11), ([3, 30], [0, 2]), ([3, 30], slice(None), [0, 2]),
            (slice(2, 39, 9), [0, 2]), (slice(2, 39, 9), None, 1), (slice(2, 39, 9), slice(None), 3),
            ([7, 9], None), ([7, 9], 1, 2), random.random(40) < 0.2, random.random(shape[:2]) < 0.2,
            random.random(shape) < 0.1, np.uint8([255 - 220, 2]), (..., [0, 2]), ([1, 30], ...),
            ([True] * 3 + [False] * 37), np.array(3), slice(0, 0, 9), slice(0, 0), [], ([], 1),
            (np.array([1, 2]), np.array([0, 1]), np.array([4, 4])), (1, slice(None), [0, 4]),
            (slice(None), [2, 0], ..., [1, 3]), (..., slice(None, None, -2)), (slice(None), 1, -1),
            (slice(None), [1, 1, 0]), (4, random.random(shape[1:]) < 0.5), (None, [4, 2], ..., None),
            ([[0, 1], [2, 2]], slice(1, None), 2), (slice(5, 1, -2), [2, 1], slice(None, None, 3)),
            (slice(3, 30), slice(1, 3), slice(2, 4)), (..., np.arange(shape[2]) % 2 == 1), (), ...,
            True, (False, 3), ([3], True),
        ):  # fmt: skip
            found, expected = tensor[index], array[index]
            assert found.dtype == expected.dtype
            np.testing.assert_array_equal(found, expected, err_msg=repr(index))
            assert not isinstance(found, np.ndarray) or found.flags.writeable
        for wrong in ([40], [-41, 0], np.array([1, 99]), (slice(None), [-shape[1] - 1]), (..., [2**40])):
            with pytest.raises(IndexError, match="out of bounds"):
                tensor[wrong]
        for odd in ([0.5], ["a"], np.zeros(3, bool), (0, 0, 0, [0]), np.zeros((40, 4), bool)):
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


def test_pickles(packed: Path, tensors, monkeypatch) -> None:
    monkeypatch.chdir(packed.parent)
    with zstn.open(packed.name, threads=1) as model:
        info = model["wte.weight"]
        tensor = model.slice("wte.weight")
        texts = [pickle.dumps(value) for value in (model, info, tensor)]
    with zstn.safe_open(packed, "np") as file:
        texts += [pickle.dumps(file), pickle.dumps(file.get_slice("wte.weight"))]
    monkeypatch.chdir("/")
    again, same, tensor, file, part = map(pickle.loads, texts)
    assert same == info and hash(same) == hash(info) and same.shape == (301, 40)
    for found in (again.numpy("wte.weight"), tensor[...], file.get_tensor("wte.weight"), part[...]):
        np.testing.assert_array_equal(found, tensors["wte.weight"])
    with pytest.raises(ValueError, match="dtype"):
        zstn.TensorInfo("a", "F99", [1], 1, 1)
    for path in ("base.safetensors", "tuned.safetensors"):
        zstn.numpy.save_file(tensors | {"scale": np.float32([len(path)])}, packed.with_name(path))
    zstn.pack(packed.with_name(path), packed.with_name("a.z4dm"), base=packed.with_name("base.safetensors"))
    monkeypatch.chdir(packed.parent)
    with zstn.open("a.z4dm", base="base.safetensors") as model:
        monkeypatch.chdir("/")
        assert pickle.loads(pickle.dumps(model)).numpy("scale") == len(path)
    packed.unlink()
    for text in (texts[0], texts[2], texts[3]):
        with pytest.raises(FileNotFoundError):
            pickle.loads(text)


def test_models_without_a_path_are_not_pickled(packed: Path) -> None:
    content = packed.read_bytes()
    with open(packed, "rb") as file:
        for source in (content, bytearray(content), memoryview(content), file, io.BytesIO(content)):
            with zstn.open(source) as model:
                for value in (model, model.slice("ids")):
                    with pytest.raises(pickle.PicklingError, match="path or address"):
                        pickle.dumps(value)


def test_a_pickle_contains_no_secret(folder: Path, rows: np.ndarray) -> None:
    with serve(folder) as address:
        with zstn.open(f"{address}/a.zstn", token="T0KEN", headers={"X-Key": "K3Y"}) as model:
            texts = [pickle.dumps(model), pickle.dumps(model.slice("emb"))]
        for text in texts:
            assert b"T0KEN" not in text and b"K3Y" not in text
            # A pickle of its copy contains no more.
            assert b"K3Y" not in pickle.dumps(pickle.loads(text))
        np.testing.assert_array_equal(pickle.loads(texts[1])[3], rows[3])
    with pytest.raises(zstn.ZstnError) as raised:
        pickle.loads(texts[0])
    assert "token and headers" in raised.value.__notes__[0]


def test_slices_of_one_pickle_share_a_reader(folder: Path) -> None:
    with serve(folder) as address:
        with zstn.open(f"{address}/a.zstn") as model:
            one = pickle.dumps(model.slice("emb"))
            three = pickle.dumps([model.slice("emb"), model.slice("one block"), model.slice("emb")])
        address.sent()
        pickle.loads(one)
        opening = address.sent()
        assert [part.shape for part in pickle.loads(three)][1:] == [(200, COLUMNS), (ROWS, COLUMNS)]
        assert address.sent() == opening > 0


def test_a_spawned_process_reads(folder: Path, rows: np.ndarray) -> None:
    with zstn.open(folder / "a.zstn") as model:
        tensor = model.slice("emb")
        with multiprocessing.get_context("spawn").Pool(2) as pool:
            found = pool.map(tensor.__getitem__, [3, 1999, slice(10, 40)])
            np.testing.assert_array_equal(pool.apply(model.numpy, ["emb"]), rows)
    for index, part in zip([3, 1999, slice(10, 40)], found, strict=True):
        np.testing.assert_array_equal(part, rows[index])


@installed("dask")
def test_dask_reads_chunks(folder: Path, rows: np.ndarray) -> None:
    import dask.array as array

    with serve(folder) as address:
        tensor = zstn.open(f"{address}/a.zstn").slice("emb")
        address.sent()
        lazy = array.from_array(tensor, chunks=(512, COLUMNS))
        assert lazy.dtype == rows.dtype and address.sent() == 0
        np.testing.assert_array_equal(lazy[600:610].compute(), rows[600:610])
        assert 0 < address.sent() < rows.nbytes / 2
        np.testing.assert_array_equal(lazy.max(axis=0).compute(), rows.max(axis=0))
        same = array.from_array(zstn.open(f"{address}/a.zstn").slice("emb"), chunks=(512, COLUMNS))
        assert same.name == lazy.name


@installed("joblib")
def test_joblib_workers_read(folder: Path, rows: np.ndarray) -> None:
    import joblib

    with serve(folder) as address:
        for source in (folder / "a.zstn", f"{address}/a.zstn"):
            with zstn.open(source) as model, joblib.Parallel(n_jobs=2, backend="loky") as parallel:
                tensor = model.slice("emb")
                read = joblib.delayed(operator.getitem)
                indices = [3, slice(10, 40), [1, 1999], np.s_[5:9, 7]]
                for index, part in zip(indices, parallel(read(tensor, i) for i in indices), strict=True):
                    np.testing.assert_array_equal(part, rows[index])
                whole = parallel(joblib.delayed(zstn.Reader.numpy)(model, name) for name in model)
                for array, expected in zip(whole, [rows, rows[:200]], strict=True):
                    np.testing.assert_array_equal(array, expected)
                workers = parallel(joblib.delayed(os.getpid)() for _ in range(4))
                assert os.getpid() not in workers
    joblib.externals.loky.get_reusable_executor().shutdown()


@installed("dask", "xarray")
def test_xarray_reads_what_it_computes(folder: Path, rows: np.ndarray) -> None:
    import dask.array as array
    import xarray

    with serve(folder) as address:
        tensor = zstn.open(f"{address}/a.zstn").slice("emb")
        address.sent()
        lazy = array.from_array(tensor, chunks=(512, COLUMNS))
        named = xarray.DataArray(lazy, dims=("token", "channel"), coords={"token": np.arange(ROWS) * 2})
        assert named.dtype == rows.dtype and named.nbytes == rows.nbytes
        part = named.sel(token=slice(1200, 1218)).isel(channel=[5, 2])
        assert address.sent() == 0
        np.testing.assert_array_equal(part.values, rows[600:610, [5, 2]])
        assert 0 < address.sent() < rows.nbytes / 2
        found = named.astype("f4").groupby("token").first().mean("channel").compute()
        np.testing.assert_allclose(found, rows.astype("f4").mean(axis=1), atol=1e-6)


@installed("dask", "xarray")
def test_the_example_with_xarray(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    embedding = np.random.default_rng(2).standard_normal((512, 64)).astype(np.float32)
    zstn.numpy.save_file({"embedding": embedding}, "model.zstn")
    text = (Path(__file__).parents[1] / "README.md").read_text("utf-8")
    (example,) = re.findall(r"^```py\n(import dask.*?)^```$", text, re.MULTILINE | re.DOTALL)
    exec(compile(example, "README.md", "exec"), {"zstn": zstn})
    expected = embedding[300:304].mean(axis=1)
    np.testing.assert_allclose(np.fromstring(capsys.readouterr().out.strip("[] \n"), sep=" "), expected, atol=1e-6)


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
