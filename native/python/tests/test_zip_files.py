"""NPZ and PyTorch files as NumPy arrays."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zstn
from range_server import serve

VECTORS = Path(__file__).parents[3] / "tests/vectors"


def vectors(folder: str) -> list[tuple[str, dict[str, Any]]]:
    listed = json.loads((VECTORS / folder / "manifest.json").read_text())["files"]
    return [(folder, vector) for vector in listed]


@pytest.mark.parametrize(
    "vector", vectors("npz") + vectors("pytorch"), ids=lambda vector: vector[1]["file"]
)
def test_tensors_have_the_values_of_the_library_that_wrote_them(
    vector: tuple[str, dict[str, Any]],
) -> None:
    folder, entry = vector
    with zstn.open(VECTORS / folder / entry["file"]) as model:
        assert model.kind == folder
        for tensor in entry["tensors"]:
            info = model[tensor["name"]]
            assert (info.dtype, info.shape) == (tensor["dtype"], tuple(tensor["shape"]))
            values = model.read(tensor["name"])
            assert hashlib.sha256(bytes(values)).hexdigest() == tensor["values_sha256"]
        metadata = entry.get("metadata", {})
        assert {key: model.metadata[key] for key in metadata} == metadata


def test_numpy_loads_the_same_arrays() -> None:
    for name in ("mlx.npz", "deflated.npz", "far-apart.npz", "other-members.npz"):
        path = VECTORS / "npz" / name
        with zstn.open(path) as model, np.load(path) as arrays:
            for key in model:
                np.testing.assert_array_equal(model.numpy(key), arrays[key])


def test_rows_over_http() -> None:
    with serve(VECTORS) as address:
        for file, name in (("types.pt", "float32"), ("strided.pt", "t")):
            model = zstn.open(f"{address}/pytorch/{file}")
            np.testing.assert_array_equal(model.slice(name)[1:, ::2], model.numpy(name)[1:, ::2])


@pytest.mark.parametrize("folder", ["npz-bad", "pytorch-bad"])
def test_damaged_files_are_refused(folder: str) -> None:
    for _, vector in vectors(folder):
        with pytest.raises(zstn.ZstnError) as error:
            zstn.verify(VECTORS / folder / vector["file"])
        assert error.value.code == vector.get("error", "malformed"), vector["file"]
