"""Compares `save_model` and `load_model` with the functions of safetensors."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors
import safetensors.torch
import torch

import zstn
import zstn.torch
from with_torch.conftest import assert_same_bits


class Tied(torch.nn.Module):
    """Two names for one parameter, and a buffer with another memory layout."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed = torch.nn.Embedding(16, 8)
        self.head = torch.nn.Linear(8, 16, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("mask", torch.arange(6.0).reshape(2, 3).t())
        self.register_buffer("none", torch.empty(0))


class Views(torch.nn.Module):
    """A buffer, a part of it, and the whole buffer under another name."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("z_all", torch.arange(12.0))
        self.register_buffer("part", self.z_all[2:5])
        self.register_buffer("again", self.z_all.view(3, 4))


class Apart(torch.nn.Module):
    """Parts of the same memory that do not overlap."""

    def __init__(self) -> None:
        super().__init__()
        whole = torch.arange(12.0)
        self.register_buffer("a", whole[:6])
        self.register_buffer("b", whole[6:])


class Incomplete(torch.nn.Module):
    """Overlapping parts of a tensor. No part covers its whole memory."""

    def __init__(self) -> None:
        super().__init__()
        whole = torch.arange(12.0)
        self.register_buffer("a", whole[:8])
        self.register_buffer("b", whole[4:])


def content(path: Path) -> tuple[Any, bytes]:
    """Returns the header and the data. safetensors writes metadata in random order."""
    data = path.read_bytes()
    end = 8 + int.from_bytes(data[:8], "little")
    return json.loads(data[8:end]), data[end:]


@pytest.mark.parametrize("make", [Tied, Views])
@pytest.mark.parametrize("metadata", [None, {}, {"format": "pt", "head.weight": "mine"}])
def test_files_are_those_of_safetensors(
    make: Callable[[], torch.nn.Module], metadata: dict[str, str] | None, tmp_path: Path
) -> None:
    ours, theirs = tmp_path / "ours.safetensors", tmp_path / "theirs.safetensors"
    given = [None if metadata is None else dict(metadata) for _ in range(2)]
    zstn.torch.save_model(make(), ours, given[0])
    safetensors.torch.save_model(make(), str(theirs), given[1])
    assert content(ours) == content(theirs)
    # safetensors modifies the metadata of its caller.
    assert given[0] == metadata


@pytest.mark.parametrize("make", [Tied, Views, Apart])
@pytest.mark.parametrize("name", ["a.safetensors", "a.zstn"])
def test_models_come_back(make: Callable[[], torch.nn.Module], name: str, tmp_path: Path) -> None:
    model = make()
    zstn.torch.save_model(model, tmp_path / name)
    again = make()
    for tensor in again.state_dict().values():
        tensor.zero_()
    assert zstn.torch.load_model(again, tmp_path / name) == ([], [])
    assert_same_bits(dict(again.state_dict()), dict(model.state_dict()))
    # safetensors refuses tensors that are separate parts of the same memory, although
    # they would be stored only once.
    if name.endswith(".safetensors") and make is not Apart:
        assert tuple(map(list, safetensors.torch.load_model(make(), str(tmp_path / name)))) == ([], [])


def test_what_is_missing_and_unexpected(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    for tensors in (
        {"embed.weight": torch.ones(16, 8), "mask": torch.ones(3, 2), "none": torch.empty(0)},
        {"head.weight": torch.ones(16, 8), "other": torch.ones(1)},
        {"mask": torch.ones(3, 2)},
        {},
    ):
        zstn.torch.save_file(tensors, path)
        ours = zstn.torch.load_model(Tied(), path, strict=False)
        theirs = safetensors.torch.load_model(Tied(), path, strict=False)
        assert tuple(map(sorted, ours)) == tuple(map(sorted, theirs))
        if any(ours):
            for load in (zstn.torch.load_model, safetensors.torch.load_model):
                with pytest.raises(RuntimeError, match="state_dict"):
                    load(Tied(), path)


def test_refusals(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    for save in (zstn.torch.save_model, safetensors.torch.save_model):
        with pytest.raises(RuntimeError, match="cover"):
            save(Incomplete(), str(path))
        with pytest.raises(ValueError, match="contiguous"):
            save(Tied(), str(path), force_contiguous=False)
    assert not path.exists()
