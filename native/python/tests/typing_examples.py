"""The API as users write it, for the type checkers: nothing here is run."""

from __future__ import annotations

from pathlib import Path
from typing import Any, assert_type

import numpy as np

import zstn
import zstn.numpy
from zstn.fsspec import ZstnFileSystem


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
        assert_type(model.slice("wte.weight")[10:20, ::2], Any)
    with zstn.safe_open("model.zstn", framework="np", device="cpu") as file:
        assert_type(file.keys(), list[str])
        assert_type(file.metadata(), dict[str, str] | None)
        assert_type(file.get_slice("wte.weight").get_shape(), list[int])


def arrays(weight: np.ndarray[Any, np.dtype[np.float32]]) -> None:
    zstn.numpy.save_file({"weight": weight}, "model.zstn", {"format": "np"}, effort="max")
    assert_type(zstn.numpy.save({"weight": weight}, format="zstn"), bytes)


def file_system() -> None:
    fs = ZstnFileSystem("model.zstn", cache_bytes=0)
    assert_type(fs.tensor_path("wte.weight"), str)
    assert_type(fs.cat_file("model.safetensors", 0, 8), bytes)


def errors() -> None:
    try:
        zstn.open("model.zstn")
    except zstn.TensorNotFoundError as error:
        assert_type(error.code, str)
