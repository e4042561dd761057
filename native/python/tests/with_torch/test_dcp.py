"""Checkpoints of `torch.distributed.checkpoint` in packed files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.api import CheckpointException
from with_torch.conftest import assert_same_bits

import zstn
from zstn.dcp import ZstnStorageReader, ZstnStorageWriter

DTYPES = ["float32", "bfloat16", "float16", "int64", "bool", "complex64", "complex128", "float8_e4m3fn"]


class Run:
    """A small model whose optimiser has a state."""

    def __init__(self, seed: int) -> None:
        torch.manual_seed(seed)
        self.model = torch.nn.Sequential(
            torch.nn.Embedding(64, 48), torch.nn.Linear(48, 32), torch.nn.LayerNorm(32)
        )
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        self.step()

    def step(self) -> None:
        self.optimizer.zero_grad()
        self.model(torch.arange(16)).square().sum().backward()
        self.optimizer.step()

    def state(self) -> dict[str, Any]:
        return {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(), "step": 7}

    def tensors(self) -> dict[str, torch.Tensor]:
        found = {f"model.{name}": value for name, value in self.model.state_dict().items()}
        for number, entry in self.optimizer.state_dict()["state"].items():
            found |= {f"optimizer.state.{number}.{key}": value for key, value in entry.items()}
        return found


def save(state: dict[str, Any], path: Path, **options: Any) -> None:
    dcp.save(state, storage_writer=ZstnStorageWriter(path, **options), no_dist=True)


def load(state: dict[str, Any], path: Path) -> None:
    dcp.load(state, storage_reader=ZstnStorageReader(path), no_dist=True)


def test_model_and_optimiser_are_saved_and_loaded(tmp_path: Path) -> None:
    run, other = Run(0), Run(1)
    save(run.state(), tmp_path / "packed")
    state = other.state() | {"step": 0}
    load(state, tmp_path / "packed")
    other.model.load_state_dict(state["model"])
    other.optimizer.load_state_dict(state["optimizer"])
    assert state["step"] == 7
    assert_same_bits(other.tensors(), run.tensors())


def test_the_files_are_read_as_any_packed_file(tmp_path: Path) -> None:
    run = Run(0)
    save(run.state(), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".metadata", "__0_0.zstn"]
    with zstn.open(tmp_path / "__0_0.zstn") as model:
        expected = run.tensors()
        assert_same_bits({name: model.tensor(name, "torch") for name in expected}, expected)
    zstn.verify(tmp_path / "__0_0.zstn")


@pytest.mark.parametrize("name", DTYPES)
def test_dtypes_and_views(tmp_path: Path, name: str) -> None:
    dtype = getattr(torch, name)
    values = torch.arange(48).reshape(6, 8)
    values = (values % 2 == 0) if dtype == torch.bool else values.to(dtype)
    state = {"whole": values, "transposed": values.t(), "tied": values, "scalar": values[0, 1],
             "empty": values[:0]}  # fmt: skip
    if dtype.is_complex:
        state["conjugate"] = (values * (1 + 2j)).conj()
    expected = {key: value.clone() for key, value in state.items()}
    save(state, tmp_path)
    found = {key: torch.zeros_like(value).contiguous() for key, value in expected.items()}
    load(found, tmp_path)
    assert_same_bits(
        {key: value.contiguous().resolve_conj() for key, value in found.items()},
        {key: value.contiguous().resolve_conj() for key, value in expected.items()},
    )


def test_deltas_from_earlier_checkpoints(tmp_path: Path) -> None:
    run, expected = Run(0), []
    names = [f"step-{number}" for number in range(4)]
    folders = [tmp_path / "run" / name for name in names]
    for number, folder in enumerate(folders):
        save(run.state(), folder, base=folders[number - 1] if number else None, max_chain=2)
        expected.append({name: tensor.clone() for name, tensor in run.tensors().items()})
        run.step()
    files = [path for folder in folders for path in folder.glob("__*")]
    assert [path.name for path in files] == ["__0_0.zstn", "__0_0.z4dm", "__0_0.z4dm", "__0_0.zstn"]
    lengths = [path.stat().st_size for path in files]
    assert lengths[2] < 0.8 * lengths[0] and lengths[3] > lengths[2]
    with zstn.open(files[2]) as model:
        assert model.metadata == {"format": "pt", "zstn.base": "../step-1/__0_0.z4dm"}
    # The checkpoints of a run can be moved together.
    (tmp_path / "run").rename(tmp_path / "moved")
    for name, tensors in zip(names, expected, strict=True):
        other = Run(1)
        state = other.state()
        load(state, tmp_path / "moved" / name)
        other.model.load_state_dict(state["model"])
        other.optimizer.load_state_dict(state["optimizer"])
        assert_same_bits(other.tensors(), tensors)
    # Other files in place of the base.
    save(Run(2).state(), tmp_path / "moved" / "step-0", overwrite=True)
    with pytest.raises(CheckpointException, match="ZstnError"):
        load(Run(1).state(), tmp_path / "moved" / "step-2")


def test_bases_are_checked(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="own base"):
        ZstnStorageWriter(tmp_path, base=tmp_path / "." / "")
    with pytest.raises(ValueError, match="max_chain"):
        ZstnStorageWriter(tmp_path, max_chain=5)
    with pytest.raises(CheckpointException, match="not a complete checkpoint"):
        save({"a": torch.ones(3)}, tmp_path / "new", base=tmp_path / "missing")


def test_an_asynchronous_save(tmp_path: Path) -> None:
    run, other = Run(0), Run(1)
    saving: Any = dcp.async_save(
        run.state(), storage_writer=ZstnStorageWriter(tmp_path / "packed"), no_dist=True
    )
    saving.result()
    state = other.state()
    load(state, tmp_path / "packed")
    assert_same_bits(state["model"], run.model.state_dict())


SHARDED = """if True:
    import json, sys, torch, torch.distributed as dist, torch.distributed.checkpoint as dcp
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor
    from zstn.dcp import ZstnStorageReader, ZstnStorageWriter

    rank, count, store, path = sys.argv[1:]
    rank, count = int(rank), int(count)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=count)
    mesh = init_device_mesh("cpu", (count,))
    full = {
        "weight": torch.arange(60 * 34, dtype=torch.float32).reshape(60, 34),
        "odd": torch.arange(7 * 5).reshape(7, 5),
        "wide": torch.complex(torch.arange(12.0).double(), torch.ones(12).double()).reshape(4, 3),
        "same": torch.arange(9.0),
    }
    def sharded(tensors, dimension):
        found = {
            name: distribute_tensor(tensor, mesh, [Shard(min(dimension, tensor.ndim - 1))])
            for name, tensor in tensors.items() if name != "same"
        }
        return found | {"same": distribute_tensor(tensors["same"], mesh, [Replicate()]), "step": 3}
    def load(dimension):
        state = sharded({name: torch.zeros_like(tensor) for name, tensor in full.items()}, dimension)
        state["step"] = 0
        dcp.load(state, storage_reader=ZstnStorageReader(path))
        for name, tensor in full.items():
            assert torch.equal(state[name].full_tensor(), tensor), name
        assert state["step"] == 3
    if count > 1:
        dcp.save(sharded(full, 0), storage_writer=ZstnStorageWriter(path))
        load(1)
    load(0)
    dist.destroy_process_group()
"""


def run_ranks(folder: Path, count: int) -> None:
    arguments = [str(count), str(folder / f"store-{count}"), str(folder / "packed")]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", SHARDED, str(rank), *arguments], stderr=subprocess.PIPE, text=True
        )
        for rank in range(count)
    ]
    errors = [process.communicate(timeout=300)[1] for process in processes]
    assert [process.returncode for process in processes] == [0] * count, errors


def test_shards_are_loaded_by_another_number_of_processes(tmp_path: Path) -> None:
    run_ranks(tmp_path, 2)
    names = sorted(path.name for path in (tmp_path / "packed").iterdir())
    assert names == [".metadata", "__0_0.zstn", "__1_0.zstn"]
    with zstn.open(tmp_path / "packed" / "__1_0.zstn") as model:
        assert model["weight@30,0"].shape == (30, 34)
    run_ranks(tmp_path, 1)


def test_an_existing_checkpoint_is_replaced_only_on_request(tmp_path: Path) -> None:
    save({"a": torch.ones(3)}, tmp_path)
    with pytest.raises(CheckpointException, match="already exists"):
        save({"a": torch.zeros(3)}, tmp_path)
    with pytest.warns(UserWarning, match="overwriting"):
        save({"a": torch.zeros(3)}, tmp_path, overwrite=True)
    state = {"a": torch.ones(3)}
    load(state, tmp_path)
    assert not state["a"].any()


def test_a_save_that_fails_leaves_no_checkpoint(tmp_path: Path) -> None:
    save({"a": torch.ones(3)}, tmp_path)
    sparse = torch.ones(3, 3).to_sparse()
    with pytest.warns(UserWarning), pytest.raises((CheckpointException, TypeError)):
        save({"a": sparse}, tmp_path, overwrite=True)
    assert not (tmp_path / ".metadata").exists() or _loads(tmp_path)


def _loads(path: Path) -> bool:
    state = {"a": torch.zeros(3)}
    load(state, path)
    return bool(state["a"].all())


def test_damage_and_other_checkpoints_are_refused(tmp_path: Path) -> None:
    save({"a": torch.arange(1000.0)}, tmp_path / "packed")
    path = tmp_path / "packed" / "__0_0.zstn"
    content = bytearray(path.read_bytes())
    content[300] ^= 1
    path.write_bytes(content)
    with pytest.raises(CheckpointException, match="ZstnError"):
        load({"a": torch.zeros(1000)}, tmp_path / "packed")
    path.unlink()
    with pytest.raises(CheckpointException, match="__0_0.zstn"):
        load({"a": torch.zeros(1000)}, tmp_path / "packed")
    dcp.save({"a": torch.ones(3)}, checkpoint_id=tmp_path / "plain", no_dist=True)
    with pytest.raises(CheckpointException, match="ZstnStorageWriter"):
        load({"a": torch.zeros(3)}, tmp_path / "plain")


def test_options_are_checked(tmp_path: Path) -> None:
    effort: Any = "silly"
    with pytest.raises(ValueError, match="effort"):
        ZstnStorageWriter(tmp_path, effort=effort)


def test_the_module_names_the_package_that_is_missing() -> None:
    script = "import sys; sys.modules['torch'] = None\nimport zstn.dcp"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert "zstn.dcp needs PyTorch" in done.stderr, done.stderr
