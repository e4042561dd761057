"""Extension frames, which are written on request and read without an option."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

import zstn
import zstn.numpy


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A checkpoint with a dequantised weight: integers times a scale for each row."""
    random = np.random.default_rng(22)
    scales = random.integers(16, 32, (300, 1)) / 4096
    values = (random.integers(-7, 8, (300, 256)) * scales).astype(np.float16)
    path = tmp_path / "m.safetensors"
    zstn.numpy.save_file({"w": values}, path, format="safetensors")
    return path


def test_extended_files_are_smaller_and_read_alike(tmp_path: Path, checkpoint: Path) -> None:
    plain, packed = tmp_path / "plain.zstn", tmp_path / "m.zstn"
    zstn.pack(checkpoint, plain)
    zstn.pack(checkpoint, packed, extended=True)
    assert (plain.read_bytes()[4], packed.read_bytes()[4]) == (3, 4)
    assert packed.stat().st_size < plain.stat().st_size
    stream = io.BytesIO()
    zstn.pack(checkpoint, stream, extended=True)
    assert stream.getvalue() == packed.read_bytes()
    expected = zstn.numpy.load_file(plain)["w"]
    assert np.array_equal(zstn.numpy.load_file(packed)["w"], expected)
    zstn.verify(packed, original=checkpoint)
    zstn.unpack(packed, tmp_path / "back.safetensors")
    assert (tmp_path / "back.safetensors").read_bytes() == checkpoint.read_bytes()


def test_convert_goes_back_and_forth(tmp_path: Path, checkpoint: Path) -> None:
    plain, packed = tmp_path / "plain.zstn", tmp_path / "m.zstn"
    zstn.pack(checkpoint, plain)
    zstn.convert(checkpoint, packed, extended=True)
    assert packed.read_bytes()[4] == 4
    zstn.convert(packed, tmp_path / "old.zstn")
    assert (tmp_path / "old.zstn").read_bytes() == plain.read_bytes()
