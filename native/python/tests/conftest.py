"""Fixtures with checkpoints."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from stub_hub_fixtures import cache, hub, pytest_configure  # noqa: F401

import zstn.numpy


def make_tensors(seed: int = 0) -> dict[str, np.ndarray]:
    """Returns tensors of several dtypes and shapes."""
    random = np.random.default_rng(seed)
    return {
        "wte.weight": random.standard_normal((301, 40)).astype(np.float32),
        "block.weight": random.standard_normal((5, 7, 6)).astype(np.float16),
        "ids": np.arange(24, dtype=np.int64).reshape(2, 3, 4),
        "mask": random.random((3, 5)) < 0.5,
        "scale": np.array(3.5, np.float32),
        "empty": np.zeros((0, 3), np.int8),
        "bytes": random.integers(0, 255, 1000, np.uint8),
    }


@pytest.fixture(params=[1, 3], ids=["one file", "shards"])
def plain_folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    from checkpoint_folders import write_checkpoint

    return write_checkpoint(tmp_path / "plain", request.param)


@pytest.fixture
def tensors() -> dict[str, np.ndarray]:
    return make_tensors()


@pytest.fixture
def plain(tmp_path: Path, tensors: dict[str, np.ndarray]) -> Path:
    path = tmp_path / "model.safetensors"
    zstn.numpy.save_file(tensors, path, {"format": "np"})
    return path


@pytest.fixture
def packed(tmp_path: Path, plain: Path) -> Path:
    path = tmp_path / "model.zstn"
    zstn.pack(plain, path)
    return path


def assert_same(
    found: dict[str, np.ndarray], expected: dict[str, np.ndarray]
) -> None:
    """Asserts that names, dtypes, shapes and bytes are equal."""
    assert sorted(found) == sorted(expected)
    for name, array in expected.items():
        assert found[name].dtype == array.dtype.newbyteorder("=")
        assert found[name].shape == array.shape
        little = array.astype(array.dtype.newbyteorder("<"))
        assert found[name].tobytes() == little.tobytes(), name
