"""Uses of the API for the type checkers. This file is not executed."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any, assert_type

import jax
import numpy as np
import torch

import zstn
import zstn.aio
import zstn.numpy
from zstn.aio import AsyncReader
from zstn.fsspec import ZstnFileSystem
from zstn.training import PackedCheckpoint, PackedCheckpoints


def checkpoints(folder: Path) -> None:
    report = zstn.pack(folder / "model.safetensors", "model.zstn", progress=True)
    assert_type(report, zstn.PackReport)
    assert_type(report.packed_bytes, int)
    assert_type(zstn.unpack("model.zstn", folder / "a.safetensors"), zstn.UnpackReport)
    assert_type(zstn.verify("model.zstn", original=folder), zstn.VerifyReport)
    assert_type(zstn.convert("model.zstn", "model.zt", progress=print), zstn.ConvertReport)


def single_tensors(content: bytes) -> None:
    with zstn.open(content) as model:
        assert_type(model, zstn.Reader)
        for name in model:
            assert_type(name, str)
            info = model[name]
            assert_type(info, zstn.TensorInfo)
            assert_type(info.shape, tuple[int, ...])
        assert_type(model.metadata, dict[str, str])
        buffer = model.read("wte.weight")
        assert_type(buffer, zstn.Buffer)
        assert_type(memoryview(buffer).readonly, bool)
        assert_type(model.numpy("wte.weight"), np.ndarray[Any, np.dtype[Any]])
        assert_type(model.tensor("wte.weight"), np.ndarray[Any, np.dtype[Any]])
        assert_type(model.slice("wte.weight")[10:20, ::2], np.ndarray[Any, np.dtype[Any]])
        assert_type(model.slice("wte.weight").dtype, np.dtype[Any])
    with zstn.safe_open("model.zstn", framework="np", device="cpu") as file:
        assert_type(file.keys(), list[str])
        assert_type(file.metadata(), dict[str, str] | None)
        assert_type(file.get_slice("wte.weight").get_shape(), list[int])
        assert_type(file.get_tensor("wte.weight"), np.ndarray[Any, np.dtype[Any]])
        assert_type(file.get_slice("wte.weight")[0], np.ndarray[Any, np.dtype[Any]])
        assert_type(list(file), list[str])


def arrays(weight: np.ndarray[Any, np.dtype[np.float32]]) -> None:
    zstn.numpy.save_file({"weight": weight}, "model.zstn", {"format": "np"}, effort="max")
    assert_type(zstn.numpy.save({"weight": weight}, format="zstn"), bytes)


def file_system() -> None:
    fs = ZstnFileSystem("model.zstn", cache_bytes=0)
    assert_type(fs.tensor_path("wte.weight"), str)
    assert_type(fs.cat_file("model.safetensors", 0, 8), bytes)


def training(folder: Path) -> None:
    store = PackedCheckpoints(folder, max_chain=2, memory="1G")
    assert_type(store.pack(folder / "checkpoint-1"), PackedCheckpoint)
    assert_type(store.restore("checkpoint-1"), Path)


def errors() -> None:
    try:
        zstn.open("model.zstn")
    except zstn.TensorNotFoundError as error:
        assert_type(error.code, str)


def refusals() -> None:
    # Each line has a type error; if not, the checker reports its unused comment.
    zstn.open(3)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    zstn.pack(3, "a.zstn")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    zstn.pack("a", None)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    zstn.pack("a", "b", effort="silly")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    zstn.convert("a", "b", to="zip")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    zstn.numpy.save({}, format="gz")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    zstn.numpy.load_file("a", backend="file")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    zstn.open("a", verify="none")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    zstn.open("a", base=[3])  # type: ignore[list-item] # pyright: ignore[reportArgumentType]
    zstn.pack("a", "b", memory=0.5)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    zstn.unpack("a", "b", progress=3)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]


async def tasks(names: list[str]) -> None:
    async with zstn.aio.open("model.zstn") as model:
        assert_type(model, AsyncReader)
        assert_type(await model.read("wte.weight"), zstn.Buffer)
        assert_type(await model.numpy("wte.weight"), np.ndarray[Any, np.dtype[Any]])
        assert_type(await model.rows("wte.weight", np.s_[3:5, 1]), np.ndarray[Any, np.dtype[Any]])
        async for name, tensor in model.stream(names):
            assert_type(name, str)
            assert_type(tensor, np.ndarray[Any, np.dtype[Any]])
    assert_type(await zstn.aio.open("model.zstn"), AsyncReader)
    assert_type(await zstn.to_thread(zstn.pack, "a.safetensors", "a.zstn"), zstn.PackReport)


def inputs(buffer: zstn.Buffer, array: np.ndarray[Any, Any]) -> None:
    for _ in (zstn.open(buffer), zstn.open(array), zstn.open(memoryview(b"")), zstn.open(io.BytesIO())):
        pass
    with open("a.zstn", "rb") as file:
        zstn.unpack(file, io.BytesIO(), base=[Path("a"), array])


def other_frameworks(name: str) -> None:
    with zstn.safe_open("model.zstn", "pt") as file:
        assert_type(file.get_tensor(name), torch.Tensor)
        assert_type(file.get_tensors(), dict[str, torch.Tensor])
    with zstn.open("model.zstn") as model:
        assert_type(model.tensor(name, "torch"), torch.Tensor)
        assert_type(model.slice(name, "jax")[0], jax.Array)
