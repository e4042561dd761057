"""Compares `safe_open` with the function of safetensors, call by call.

Every row is run with both. Rows without a remark have to agree; the remarks on the others
state how and why zstn differs.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import safetensors
import safetensors.numpy

import zstn
import zstn.numpy

TENSORS = {
    "matrix": np.arange(12, dtype=np.float32).reshape(3, 4),
    "scalar": np.array(3.0, np.float32),
    "empty": np.zeros((0, 3), np.int8),
    "Zed": np.arange(5, dtype=np.int16),
}


@pytest.fixture(params=["plain", "packed"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Path]:
    """Returns the plain file, and the file that zstn opens."""
    plain = tmp_path / "m.safetensors"
    safetensors.numpy.save_file(TENSORS, plain, {"a": "1"})
    if request.param == "plain":
        return plain, plain
    zstn.pack(plain, tmp_path / "m.zstn")
    return plain, tmp_path / "m.zstn"


def outcome(call: Callable[[], Any]) -> Any:
    """Returns a result in a form that can be compared, or the exception."""
    try:
        result = call()
    except Exception as error:
        return error
    return comparable(result)


def comparable(result: Any) -> Any:
    if isinstance(result, np.ndarray):
        writable = result.flags.writeable
        return ("array", str(result.dtype), result.shape, result.tobytes(), writable)
    if isinstance(result, dict):
        return {key: comparable(value) for key, value in result.items()}
    return result


#: Calls of methods of an open file that return equal results.
ALIKE: dict[str, Callable[[Any], Any]] = {
    "keys": lambda f: f.keys(),
    "offset_keys": lambda f: f.offset_keys(),
    "metadata": lambda f: f.metadata(),
    "get_tensor": lambda f: f.get_tensor("matrix"),
    "get_tensor of a scalar": lambda f: f.get_tensor("scalar"),
    "get_tensor of an empty one": lambda f: f.get_tensor("empty"),
    "get_tensors": lambda f: f.get_tensors(),
    "shape": lambda f: f.get_slice("matrix").get_shape(),
    "dtype": lambda f: f.get_slice("matrix").get_dtype(),
    "hashable": lambda f: {f: 1}[f],
    "context": lambda f: f.__enter__() is f,
    "exit": lambda f: f.__exit__(None, None, None),
    "slice after exit": lambda f: [f.get_slice("matrix"), f.__exit__(None, None, None)][0][1],
    **{
        f"matrix[{index!r}]": lambda f, index=index: f.get_slice("matrix")[index]
        for index in [
            0, -1, np.int64(1), ..., (), [], slice(None), slice(1, 2), slice(0, 0), slice(0, 3, 2),
            (slice(None), 1), (slice(1, 3), slice(0, 2)), (0, 0), (..., 1), (1, ...),
            (slice(None), slice(0, 4, 3)),
        ]  # fmt: skip
    },
    "scalar[...]": lambda f: f.get_slice("scalar")[...],
    "scalar[()]": lambda f: f.get_slice("scalar")[()],
}


@pytest.mark.parametrize("name", ALIKE)
def test_answers_alike(path: tuple[Path, Path], name: str) -> None:
    call = ALIKE[name]
    theirs = outcome(lambda: call(safetensors.safe_open(path[0], "np")))
    ours = outcome(lambda: call(zstn.safe_open(path[1], "np")))
    assert not isinstance(theirs, Exception)
    assert ours == theirs


#: Calls of methods of an open file that raise equal errors: safetensors' exception
#: class with these words.
FAIL_ALIKE: dict[str, tuple[Callable[[Any], Any], str]] = {
    "get_tensor": (lambda f: f.get_tensor("zz"), "File does not contain tensor zz"),
    "get_slice": (lambda f: f.get_slice("zz"), "File does not contain tensor zz"),
    "closed": (lambda f: [f.__exit__(None, None, None), f.keys()], "File is closed"),
    "closed tensor": (
        lambda f: [f.__exit__(None, None, None), f.get_tensor("matrix")],
        "File is closed",
    ),
    "index": (lambda f: f.get_slice("matrix")[3], ""),
    "negative index": (lambda f: f.get_slice("matrix")[-4], ""),
    "too many": (lambda f: f.get_slice("matrix")[0, 0, 0], ""),
}


@pytest.mark.parametrize("name", FAIL_ALIKE)
def test_fails_alike(path: tuple[Path, Path], name: str) -> None:
    call, words = FAIL_ALIKE[name]
    theirs = outcome(lambda: call(safetensors.safe_open(path[0], "np")))
    ours = outcome(lambda: call(zstn.safe_open(path[1], "np")))
    for error in (theirs, ours):
        assert isinstance(error, safetensors.SafetensorError)
        assert words in str(error)
    assert isinstance(ours, zstn.ZstnError)


#: Arguments that open a file, and the exception that both raise. `Path` and `str` are
#: replaced by the path of the file.
OPENING: dict[str, tuple[tuple[Any, ...], dict[str, Any], type[Exception] | None]] = {
    "framework": ((Path, "np"), {}, None),
    "long name of the framework": ((Path, "numpy"), {}, None),
    "keywords": ((), {"filename": Path, "framework": "np"}, None),
    "a string": ((str, "np"), {}, None),
    "device": ((Path, "np", "cpu"), {}, None),
    "mmap": ((Path, "np"), {"backend": "mmap"}, None),
    "pread": ((Path, "np"), {"backend": "pread"}, None),
    "positional backend": ((Path, "np", "cpu", "mmap"), {}, TypeError),
    "no framework": ((Path,), {}, TypeError),
    "bytes as the name": ((b"m.safetensors", "np"), {}, TypeError),
    "unknown framework": ((Path, "xx"), {}, safetensors.SafetensorError),
    "unknown backend": ((Path, "np"), {"backend": "x"}, safetensors.SafetensorError),
    "device of another framework": ((Path, "np", "cuda"), {}, safetensors.SafetensorError),
    "missing file": (("nothing", "np"), {}, FileNotFoundError),
    # safetensors raises an OSError of mmap. zstn opens the folder of a model, and its
    # error names the files that this folder lacks.
    "folder": ((".", "np"), {}, Exception),
    "other file": ((__file__, "np"), {}, safetensors.SafetensorError),
}


def test_an_unknown_framework_is_told_the_known_ones(path: tuple[Path, Path]) -> None:
    with pytest.raises(zstn.ZstnError, match="framework pytroch is invalid.*'pytorch'"):
        zstn.safe_open(path[1], "pytroch")  # type: ignore[call-overload, unused-ignore]


@pytest.mark.parametrize("device", ["cuda", "cuda:0", 0])
def test_a_device_that_a_framework_does_not_have(path: tuple[Path, Path], device: Any) -> None:
    with zstn.open(path[1]) as model:
        name = model.keys()[0]
        for framework, library in (("numpy", "numpy"), ("jax", "flax"), ("mlx", "mlx")):
            message = f"^Device {device} is not supported for framework {library}$"
            for call in (
                lambda: zstn.safe_open(path[1], framework, device),
                lambda: model.tensor(name, framework, device),
                lambda: model.slice(name, framework, device),
            ):
                with pytest.raises(zstn.ZstnError, match=message) as error:
                    call()
                assert error.value.code == "usage"


@pytest.mark.parametrize("name", OPENING)
def test_opening(path: tuple[Path, Path], name: str) -> None:
    args, keywords, expected = OPENING[name]

    def given(value: Any, path: Path) -> Any:
        return {Path: path, str: str(path)}.get(value, value) if isinstance(value, type) else value

    for module, file in ((safetensors, path[0]), (zstn, path[1])):
        result = outcome(
            lambda module=module, file=file: module.safe_open(
                *(given(arg, file) for arg in args),
                **{key: given(value, file) for key, value in keywords.items()},
            )
        )
        if expected is None:
            assert not isinstance(result, Exception), module
            result.__exit__(None, None, None)
        else:
            assert isinstance(result, expected), (module, result)
    if expected is FileNotFoundError:
        assert str(result) == "No such file or directory: nothing"


#: Indices that safetensors refuses; zstn returns the same result as NumPy.
AS_NUMPY = [
    slice(-2, None), slice(None, None, -1), None, [0, 2], slice(1, 100), slice(3, 1), (..., -3),
]  # fmt: skip


@pytest.mark.parametrize("index", AS_NUMPY, ids=repr)
def test_answers_as_numpy(path: tuple[Path, Path], index: Any) -> None:
    theirs = outcome(lambda: safetensors.safe_open(path[0], "np").get_slice("matrix")[index])
    if index != (..., -3):
        assert isinstance(theirs, Exception)
    found = zstn.safe_open(path[1], "np").get_slice("matrix")[index]
    expected = TENSORS["matrix"][index]
    assert found.shape == expected.shape and found.tobytes() == expected.tobytes()


def test_empty_tensors_can_be_sliced(path: tuple[Path, Path]) -> None:
    theirs = outcome(lambda: safetensors.safe_open(path[0], "np").get_slice("empty")[...])
    assert isinstance(theirs, Exception)
    assert zstn.safe_open(path[1], "np").get_slice("empty")[...].shape == (0, 3)


def test_what_only_zstn_has(path: tuple[Path, Path]) -> None:
    with zstn.safe_open(path[1], "np") as file:
        assert len(file) == 4 and list(file) == file.keys() and "scalar" in file
        assert "zz" not in file


@pytest.mark.parametrize("framework", ["pt", "torch", "pytorch", "paddle"])
def test_frameworks_that_opening_imports(path: tuple[Path, Path], framework: str) -> None:
    for module, file in ((safetensors, path[0]), (zstn, path[1])):
        with pytest.raises(ModuleNotFoundError):
            module.safe_open(file, framework)


@pytest.mark.parametrize("framework", ["flax", "jax", "tf", "tensorflow", "mlx"])
def test_frameworks_that_a_tensor_imports(path: tuple[Path, Path], framework: str) -> None:
    for module, file in ((safetensors, path[0]), (zstn, path[1])):
        opened = module.safe_open(file, framework)
        with pytest.raises(ModuleNotFoundError):
            opened.get_tensor("matrix")


#: All dtypes of the format, with the dtypes of NumPy and ml_dtypes; `None` if there is
#: none.
DTYPES = {
    "BOOL": np.bool_, "U8": np.uint8, "I8": np.int8, "I16": np.int16, "U16": np.uint16,
    "F16": np.float16, "I32": np.int32, "U32": np.uint32, "F32": np.float32,
    "C64": np.complex64, "F64": np.float64, "I64": np.int64, "U64": np.uint64,
    "BF16": ml_dtypes.bfloat16, "F8_E5M2": ml_dtypes.float8_e5m2,
    "F8_E4M3": ml_dtypes.float8_e4m3fn, "F8_E8M0": ml_dtypes.float8_e8m0fnu,
    "F8_E4M3FNUZ": ml_dtypes.float8_e4m3fnuz, "F8_E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
    "F4": ml_dtypes.float4_e2m1fn, "F6_E2M3": None, "F6_E3M2": None,
}  # fmt: skip
BITS = {"F4": 4, "F6_E2M3": 6, "F6_E3M2": 6}


def file_of(dtype: str) -> tuple[bytes, bytes]:
    """Returns a file with a tensor of 6 x 8 elements, and the tensor's bytes."""
    bits = BITS.get(dtype) or np.dtype(DTYPES[dtype]).itemsize * 8
    count = 6 * 8 * bits // 8
    content = bytes(n % 2 if dtype == "BOOL" else n * 37 % 251 for n in range(count))
    header = f'{{"x":{{"dtype":"{dtype}","shape":[6,8],"data_offsets":[0,{count}]}}}}'.encode()
    return len(header).to_bytes(8, "little") + header + content, content


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype(tmp_path: Path, dtype: str) -> None:
    file, content = file_of(dtype)
    plain, packed = tmp_path / "a.safetensors", tmp_path / "a.zstn"
    plain.write_bytes(file)
    zstn.pack(plain, packed)
    element = DTYPES[dtype]
    for path in (plain, packed):
        with zstn.open(path) as model:
            assert model["x"].dtype == dtype
            assert bytes(model.read("x")) == content
            opened = zstn.safe_open(path, "np")
            if element is None:
                with pytest.raises(TypeError, match="read"):
                    opened.get_tensor("x")
                continue
            array = opened.get_tensor("x")
            assert array.dtype == element and array.shape == (6, 8) and array.flags.writeable
            part = opened.get_slice("x")[1:5:2]
            assert part.tobytes() == array[1:5:2].tobytes()
            if dtype == "F4":
                with pytest.raises(IndexError, match="whole"):
                    opened.get_slice("x")[:, 1]
            else:
                assert opened.get_slice("x")[:, 3].tobytes() == array[:, 3].tobytes()
            assert zstn.numpy.save({"x": array})[-len(content) :] == content
    theirs = outcome(lambda: safetensors.safe_open(plain, "np").get_tensor("x"))
    if not isinstance(theirs, Exception):
        assert theirs == comparable(zstn.safe_open(packed, "np").get_tensor("x"))
