"""Fixtures with checkpoints."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from stub_hub import StubHub

import zstn.numpy

_HUB = pytest.StashKey[StubHub]()


def pytest_configure(config: pytest.Config) -> None:
    """Starts a hub before huggingface_hub, which reads its settings on import, is
    imported."""
    home = tempfile.TemporaryDirectory(prefix="zstn-hf-")
    server = StubHub("--xet", f"{home.name}/xet")
    os.environ.update(
        HF_ENDPOINT=server.endpoint,
        HF_HOME=home.name,
        HF_HUB_DISABLE_PROGRESS_BARS="1",
        HF_HUB_DISABLE_TELEMETRY="1",
        HF_HUB_DISABLE_XET="1",
    )
    for name in ("HF_TOKEN", "HF_HUB_CACHE", "HF_HUB_OFFLINE", "ZSTN_CACHE"):
        os.environ.pop(name, None)
    config.stash[_HUB] = server
    config.add_cleanup(home.cleanup)
    config.add_cleanup(server.close)


@pytest.fixture
def hub(request: pytest.FixtureRequest) -> Iterator[StubHub]:
    server = request.config.stash[_HUB]
    server.clear_log()
    yield server
    server.clear()
    server.heal()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Sets the folder for restored files."""
    folder = tmp_path / "zstn-cache"
    monkeypatch.setenv("ZSTN_CACHE", str(folder))
    return folder


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
