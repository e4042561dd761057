"""Compares `zstn.z4ai` with z4ai: each reads the files that the other wrote."""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np
import pytest

import zstn.numpy
from zstn import z4ai as ours

theirs = pytest.importorskip("z4ai")


def weights(count: int = 50_000) -> bytes:
    values = (np.random.default_rng(0).standard_normal(count) * 0.02).astype(np.float32)
    return (values.view(np.uint32) >> 16).astype("<u2").tobytes()


MODULES = [
    "auto", "chunked", "codec", "delta", "format", "integrations", "model_delta", "palette",
    "safetensors", "sparse", "transforms", "turbo",
]  # fmt: skip


def public(module: object) -> dict[str, object]:
    return {
        name: value
        for name, value in vars(module).items()
        if inspect.isfunction(value)
        and not name.startswith("_")
        and value.__module__ == module.__name__  # type: ignore[attr-defined]
    }


@pytest.mark.parametrize("module", ["", *MODULES])
def test_the_same_functions(module: str) -> None:
    import importlib

    name = f".{module}" if module else ""
    them = importlib.import_module(f"z4ai{name}")
    us = importlib.import_module(f"zstn.z4ai{name}")
    assert set(getattr(them, "__all__", ())) <= {*dir(us), *getattr(us, "__all__", ())}
    for function, value in public(them).items():
        wanted = inspect.signature(value).parameters  # type: ignore[arg-type]
        found = inspect.signature(getattr(us, function)).parameters
        assert list(found) == list(wanted), function
        for parameter in wanted.values():
            same = found[parameter.name]
            assert (same.kind, same.default) == (parameter.kind, parameter.default), function


@pytest.mark.parametrize("effort", [None, "fast", "balanced", "max"])
@pytest.mark.parametrize("dtype", ["bf16", None, "fp64", "int32", "fp8_e4m3"])
def test_buffers(dtype: str | None, effort: str | None) -> None:
    data = weights() + b"tail"
    packed = ours.compress(data, dtype=dtype, effort=effort)
    assert theirs.decompress(packed) == data
    assert ours.decompress(theirs.compress(data, dtype=dtype, effort=effort)) == data
    out = bytearray(len(data) + 2)
    assert ours.decompress(packed, out=out) is out and out[:-2] == data
    with pytest.raises(ValueError, match="too small"):
        ours.decompress(packed, out=bytearray(3))


ARRAYS = [
    np.linspace(-1, 1, 3000, dtype=np.float32).reshape(3, -1),
    np.linspace(-1, 1, 300, dtype=">f4"),
    np.arange(100, dtype=">i2"),
    np.ones((3, 4), bool),
    np.zeros((1000, 20), np.int64),
    np.array(3, np.float16),
    np.zeros((0, 3)),
    np.repeat(np.arange(7.0), 1000),
    np.ones(5, np.complex64),
]


@pytest.mark.parametrize("effort", [None, "max"])
@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: f"{array.dtype}{array.shape}")
def test_arrays(array: np.ndarray, effort: str | None) -> None:
    one = theirs.decompress_ndarray(ours.compress_ndarray(array, effort=effort))
    other = ours.decompress_ndarray(theirs.compress_ndarray(array, effort=effort))
    for found in (one, other):
        assert found.dtype == array.dtype and found.tobytes() == array.tobytes()
    assert one.shape == other.shape
    with pytest.raises(ValueError, match="array"):
        ours.decompress_ndarray(ours.compress(array.tobytes()))


@pytest.mark.parametrize(
    ("module", "options"),
    [("auto", {"dtype": "bf16"}), ("turbo", {"width": 2}), ("chunked", {"dtype": "bf16"})],
)
def test_other_frames(module: str, options: dict) -> None:
    us, them = getattr(ours, module), __import__(f"z4ai.{module}", fromlist=[""])
    data = weights()
    packed = us.compress(data, **options)
    assert packed.startswith(them.MAGIC) and us.MAGIC == them.MAGIC
    assert them.decompress(packed) == data == us.decompress(them.compress(data, **options))
    with pytest.raises(ValueError):
        us.decompress(b"nothing of the kind")


@pytest.mark.parametrize("module", ["sparse", "palette"])
def test_sparse_and_palette(module: str) -> None:
    us, them = getattr(ours, module), __import__(f"z4ai.{module}", fromlist=[""])
    array = np.repeat(np.arange(5, dtype=np.uint16), 900)
    options = {"is_numpy": True, "np_dtype": array.dtype.str, "shape": array.shape}
    packed = us.compress(array.tobytes(), 2, **options)
    assert them.decompress(packed) == array.tobytes()
    assert us.decompress(them.compress(array.tobytes(), 2, **options)) == array.tobytes()
    assert them.read_numpy_metadata(packed) == us.read_numpy_metadata(packed) == ("<u2", (4500,))
    assert us.read_numpy_metadata(us.compress(array.tobytes(), 2)) is None
    with pytest.raises(ValueError):
        us.compress(b"", 3)


def test_deltas() -> None:
    data = weights()
    changed = bytearray(data)
    changed[1000:1010] = bytes(10)
    packed = ours.compress_delta(changed, data, dtype="bf16")
    assert ours.delta.peek_is_delta(packed)
    assert theirs.decompress_delta(packed, data) == changed
    assert ours.decompress_delta(theirs.compress_delta(bytes(changed), data), data) == changed
    for wrong in (data[:-2], changed):
        with pytest.raises(ValueError):
            ours.decompress_delta(packed, wrong)


def test_checkpoints(tmp_path: Path) -> None:
    import z4ai.safetensors as them

    tensors = {"a": np.ones((30, 40), np.float32), "b": np.arange(7), "c": np.ones((30, 40), "f4")}
    plain = tmp_path / "a.safetensors"
    zstn.numpy.save_file(tensors, plain, {"k": "v"})
    content = plain.read_bytes()
    us = ours.safetensors
    packed = us.compress_bytes(content)
    assert them.decompress_bytes(packed) == content
    assert us.decompress_bytes(them.compress_bytes(content)) == content
    stats = us.compress_file(plain, tmp_path / "a.zstn")
    assert stats["original_bytes"] == len(content) and stats["ratio"] > 1
    assert us.decompress_file(tmp_path / "a.zstn", tmp_path / "b") == {"bytes": len(content)}
    assert (tmp_path / "b").read_bytes() == content
    with us.ZstnReader.open(tmp_path / "a.zstn") as one, them.ZstnReader.from_bytes(packed) as two:
        for reader in (one, two):
            assert reader.names() == ["b", "a", "c"] and "b" in reader
            assert reader.metadata() == {"k": "v"}
            assert (reader.read_numpy("a") == 1).all() and len(reader.read_raw("b")) == 56
            with pytest.raises(KeyError):
                reader.read_raw("d")
        assert one.header() == two.header()
        assert one.frame_size("c") == two.frame_size("c")


def test_differences_of_checkpoints(tmp_path: Path) -> None:
    import z4ai.model_delta as them

    us = ours.model_delta
    base = zstn.numpy.save({"a": np.arange(4000.0), "b": np.ones(3)})
    target = zstn.numpy.save({"a": np.arange(4000.0) + 1e-9, "b": np.ones(3)})
    packed = us.compress(target, base)
    assert us.peek_is_model_delta(packed)
    assert them.decompress(packed, base) == target == us.decompress(them.compress(target, base), base)
    with pytest.raises(ValueError):
        us.decompress(packed, target)
    for name, content in {"base": base, "target": target}.items():
        (tmp_path / name).write_bytes(content)
    stats = us.compress_file(tmp_path / "target", tmp_path / "base", tmp_path / "delta")
    assert stats["original"] == len(target) and stats["ratio"] > 1
    us.decompress_file(tmp_path / "delta", tmp_path / "base", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == target


def test_only_safetensors_files_are_packed(tmp_path: Path) -> None:
    content = b"\x05\0\0\0\0\0\0\0not-json!"
    other, packed = tmp_path / "a.bin", tmp_path / "packed"
    other.write_bytes(content)
    for package in (ours, theirs):
        with pytest.raises(ValueError):
            package.safetensors.compress_bytes(content)
        with pytest.raises(ValueError):
            package.safetensors.compress_file(other, packed)
        with pytest.raises(ValueError):
            package.model_delta.compress_file(other, other, packed)
        assert not packed.exists()


def test_fields_of_a_frame() -> None:
    frame = ours.codec.compress(weights(), dtype="bf16", auto=False)
    fields = ours.format.deserialize(frame)
    assert ours.format.serialize(fields) == frame
    assert theirs.format.deserialize(frame).width == fields.width
    for end in (0, 5, 40, len(frame) - 1):
        with pytest.raises(ValueError):
            ours.format.deserialize(frame[:end])
