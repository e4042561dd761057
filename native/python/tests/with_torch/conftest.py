"""Models for the tests with PyTorch. The hub is the one of ../conftest.py."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import zstn

# The libraries read these settings when they are imported.
os.environ.setdefault("DISABLE_SAFETENSORS_CONVERSION", "1")


@pytest.fixture(autouse=True)
def own_cache(cache: Path) -> Path:
    return cache


@pytest.fixture
def enabled() -> Iterator[None]:
    zstn.enable_hf()
    yield
    zstn.disable_hf()


def assert_same_bits(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    """Asserts that names, dtypes, shapes and bits are equal, including the bits of NaN.
    """
    assert sorted(found) == sorted(expected)
    for name, tensor in expected.items():
        other = found[name]
        assert (other.dtype, other.shape) == (tensor.dtype, tensor.shape), name
        assert bits(other) == bits(tensor), name


def bits(tensor: torch.Tensor) -> bytes:
    if not tensor.numel():
        return b""
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
