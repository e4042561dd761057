"""Compares files written by `torch.save` with what `torch.load` returns for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from with_torch.conftest import assert_same_bits
from with_torch.test_torch import DTYPES, make

import zstn
import zstn.torch


# `torch.load` reads no other dtypes from files of the legacy form.
LEGACY = {torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64}
LEGACY |= {torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool}


def state(zip_form: bool) -> dict[str, torch.Tensor]:
    """Returns tensors that share, overlap and transpose their storages."""
    base = make(torch.float32, (64, 96))
    tensors = {
        "base": base,
        "tied": base,
        "rows": base[8:24],
        "transposed": base.t(),
        "columns": base[:, ::3],
        "weights": torch.randn(256, 512, generator=torch.Generator().manual_seed(1)).bfloat16(),
        "scalar": torch.tensor(1.5),
        "empty": torch.zeros(0, 3),
    }
    stored = [dtype for dtype in DTYPES if (zip_form and "float4" not in str(dtype)) or dtype in LEGACY]
    return tensors | {str(dtype): make(dtype, (5, 16)) for dtype in stored}


def load(path: Path) -> dict[str, torch.Tensor]:
    with zstn.open(path) as model:
        return {name: model.tensor(name, "torch") for name in model}


@pytest.mark.parametrize("zip_form", [True, False], ids=["zip", "legacy"])
def test_state_dicts_are_read_packed_and_restored(tmp_path: Path, zip_form: bool) -> None:
    path, packed, restored = (tmp_path / name for name in ("m.pt", "m.pt.zstn", "restored.pt"))
    torch.save(state(zip_form), path, _use_new_zipfile_serialization=zip_form)
    expected: dict[str, Any] = torch.load(path, weights_only=True)
    assert_same_bits(load(path), expected)
    zstn.pack(path, packed)
    assert_same_bits(load(packed), expected)
    zstn.unpack(packed, restored)
    assert restored.read_bytes() == path.read_bytes()


def test_parameters_and_states_of_optimisers(tmp_path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.BatchNorm1d(32))
    optimiser = torch.optim.Adam(model.parameters())
    model(torch.randn(8, 64)).sum().backward()
    optimiser.step()
    path = tmp_path / "checkpoint.pt"
    torch.save({"model": model.state_dict(), "optimizer": optimiser.state_dict(), "step": 1}, path)
    found = load(path)
    expected = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    moments = optimiser.state_dict()["state"]
    for number, entry in moments.items():
        expected |= {f"optimizer.state.{number}.{key}": value for key, value in entry.items()}
    assert_same_bits(found, expected)


def test_a_pickle_is_never_executed(tmp_path: Path) -> None:
    class Harmful:
        def __reduce__(self) -> tuple[Any, ...]:
            return (open, (str(tmp_path / "made"), "w"))

    path = tmp_path / "harmful.pt"
    torch.save({"weight": torch.ones(3), "harm": Harmful()}, path)
    with zstn.open(path) as model:
        assert model.tensor("weight", "torch").tolist() == [1, 1, 1]
    assert not (tmp_path / "made").exists()
