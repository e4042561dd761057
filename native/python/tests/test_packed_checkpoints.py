"""Stores of packed checkpoints, without a framework."""

from __future__ import annotations

import json
import os
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zstn
import zstn.numpy
from zstn.training import BackgroundPacker, PackedCheckpoints, restore_checkpoint

Content = dict[str, bytes]


def write(folder: Path, step: int) -> Path:
    """Writes a checkpoint whose weights differ slightly from step to step."""
    random = np.random.default_rng(1)
    base = random.standard_normal((128, 64)).astype(np.float32)
    change = np.random.default_rng(step).random((128, 64)) < 0.02
    moments = np.random.default_rng(step + 100).standard_normal((64, 64)).astype(np.float32)
    path = folder / f"checkpoint-{step}"
    (path / "deep").mkdir(parents=True)
    zstn.numpy.save_file({"w": np.where(change, base * 1.01, base)}, path / "model.safetensors")
    zstn.numpy.save_file({"m": moments}, path / "deep" / "optimizer.safetensors")
    (path / "state.json").write_text(json.dumps({"step": step}))
    (path / "empty").touch()
    return path


def content(path: Path) -> Content:
    if path.is_file():
        return {"": path.read_bytes()}
    files = (file for file in path.rglob("*") if file.is_file())
    return {file.relative_to(path).as_posix(): file.read_bytes() for file in files}


def pack_all(folder: Path, steps: int, **options: Any) -> tuple[PackedCheckpoints, list[Content]]:
    store = PackedCheckpoints(folder / "packed", **options)
    paths = [write(folder, step) for step in range(steps)]
    for path in paths:
        store.pack(path)
    return store, [content(path) for path in paths]


def test_a_chain_is_restored_byte_for_byte(tmp_path: Path) -> None:
    store, originals = pack_all(tmp_path, 7, max_chain=2)
    assert store.names() == [f"checkpoint-{step}" for step in range(7)]
    bases = [store.get(name).file("model.safetensors") for name in store.names()]
    assert [file and file.base for file in bases] == [
        None, "checkpoint-0", "checkpoint-1", None, "checkpoint-3", "checkpoint-4", None
    ]  # fmt: skip
    for step, original in enumerate(originals):
        restored = store.restore(f"checkpoint-{step}", tmp_path / "out" / str(step))
        assert content(restored) == original
    second = store.get("checkpoint-1")
    assert second.packed_bytes < store.get("checkpoint-0").packed_bytes < second.original_bytes


def test_a_file_whose_delta_is_not_smaller_has_no_base(tmp_path: Path) -> None:
    store, _ = pack_all(tmp_path, 6, max_chain=2)
    found = [store.get(name).file("deep/optimizer.safetensors") for name in store.names()]
    assert all(file is not None and file.base is None for file in found)
    # A delta is tried again from time to time.
    assert [file and file.lone for file in found] == [0, 1, 2, 3, 1, 2]


def write_averaged(folder: Path, step: int) -> Path:
    """Writes a checkpoint with weights that change completely from step to step, and
    averages that are close to them."""
    random = np.random.default_rng(step)
    weights = random.standard_normal((128, 64)).astype(np.float32)
    averages = (weights * (1 + random.standard_normal((128, 64)) / 4096)).astype(np.float32)
    path = folder / f"checkpoint-{step}"
    (path / "averaged").mkdir(parents=True)
    zstn.numpy.save_file({"w": weights}, path / "model.safetensors")
    zstn.numpy.save_file({"w": averages}, path / "averaged" / "model.safetensors")
    zstn.numpy.save_file({"w": averages[:64]}, path / "other.safetensors")
    return path


def test_averaged_weights_are_a_delta_from_the_weights(tmp_path: Path) -> None:
    store = PackedCheckpoints(tmp_path / "packed", max_chain=1)
    originals = [content(store.folder.parent / store.pack(write_averaged(tmp_path, step)).name)
                 for step in range(4)]  # fmt: skip
    for step, original in enumerate(originals):
        packed = store.get(f"checkpoint-{step}")
        files = {file.path: (file.base, file.base_path) for file in packed.files}
        assert files == {
            "averaged/model.safetensors": (None, None),
            "model.safetensors": (packed.name, "averaged/model.safetensors"),
            "other.safetensors": (None, None),
        }
        assert packed.files[1].stored_bytes < 0.75 * packed.files[0].stored_bytes
        assert content(store.restore(packed.name, tmp_path / "out" / str(step))) == original
    assert store.prune(["checkpoint-2"]) == ["checkpoint-3", "checkpoint-1", "checkpoint-0"]
    assert store.remove_original("checkpoint-2", tmp_path / "checkpoint-2")
    assert content(store.restore("checkpoint-2")) == originals[2]
    assert PackedCheckpoints(tmp_path / "whole", max_chain=0).pack(tmp_path / "checkpoint-0").bases == set()


def test_the_files_that_a_checkpoint_needs(tmp_path: Path) -> None:
    store, _ = pack_all(tmp_path, 3)
    second = [store.folder / "checkpoint-2" / file.stored for file in store.get("checkpoint-2").files]
    bases = [store.folder / f"checkpoint-{n}" / "model.safetensors" for n in (0, 1)]
    stored = [bases[0].with_name("model.safetensors.zstn"), bases[1].with_name("model.safetensors.z4dm")]
    needed = store.needed("checkpoint-2")
    assert needed == {path: path.stat().st_size for path in [*second, *stored]}
    assert store.get("checkpoint-2").packed_bytes < sum(needed.values())


def test_the_same_checkpoint_is_packed_once(tmp_path: Path) -> None:
    store, _ = pack_all(tmp_path, 2)
    assert store.pack(tmp_path / "checkpoint-0").name == "checkpoint-0"
    (tmp_path / "checkpoint-0" / "state.json").write_text("{}")
    assert store.pack(tmp_path / "checkpoint-0").name == "checkpoint-0~2"
    assert store.names() == ["checkpoint-0", "checkpoint-1", "checkpoint-0~2"]
    restored = store.restore("checkpoint-0~2", tmp_path / "again")
    assert content(restored) == content(tmp_path / "checkpoint-0")


def test_checkpoints_may_be_files(tmp_path: Path) -> None:
    store = PackedCheckpoints(tmp_path / "packed")
    weights, originals = np.random.default_rng(0).standard_normal(5000).astype(np.float32), {}
    for step in range(3):
        path = tmp_path / f"step={step}.ckpt"
        weights[step * 10 : step * 10 + 10] += 1
        zstn.numpy.save_file({"w": weights}, path)
        originals[path] = path.read_bytes()
        store.pack(path)
        path.unlink()
    assert store.get("step=2.ckpt").bases == {"step=1.ckpt"}
    for path, original in originals.items():
        assert restore_checkpoint(tmp_path / "packed" / path.name) == str(path)
        assert path.read_bytes() == original


def test_an_existing_folder_is_left(tmp_path: Path) -> None:
    store, _ = pack_all(tmp_path, 1)
    path = tmp_path / "checkpoint-0"
    assert store.restore("checkpoint-0") == path
    (path / "state.json").write_text("{}")
    with pytest.raises(FileExistsError, match="differs from the packed checkpoint"):
        store.restore("checkpoint-0")
    assert (path / "state.json").read_text() == "{}"


def test_originals_are_removed_only_if_they_can_be_restored(tmp_path: Path) -> None:
    store, originals = pack_all(tmp_path, 3)
    (tmp_path / "checkpoint-0" / "new").touch()
    assert not store.remove_original("checkpoint-0", tmp_path / "checkpoint-0")
    base = store.folder / "checkpoint-0" / "model.safetensors.zstn"
    damaged = base.read_bytes()[:-1]
    base.write_bytes(damaged)
    assert not store.remove_original("checkpoint-1", tmp_path / "checkpoint-1")
    assert content(tmp_path / "checkpoint-1") == originals[1]


def test_pruning_keeps_bases(tmp_path: Path) -> None:
    store, originals = pack_all(tmp_path, 6, max_chain=2)
    assert sorted(store.prune(["checkpoint-4"])) == [f"checkpoint-{n}" for n in (0, 1, 2, 5)]
    assert store.names() == ["checkpoint-3", "checkpoint-4"]
    assert content(store.restore("checkpoint-4", tmp_path / "out")) == originals[4]
    assert store.prune([]) == ["checkpoint-4", "checkpoint-3"]


def test_packing_in_the_background(tmp_path: Path) -> None:
    packer = BackgroundPacker(PackedCheckpoints(tmp_path / "packed"), keep_originals=2, limit=3)
    originals = []
    for step in range(5):
        path = write(tmp_path, step)
        originals.append(content(path))
        packer.submit(path)
    packer.close()
    left = sorted(path.name for path in tmp_path.glob("checkpoint-*"))
    assert left == ["checkpoint-3", "checkpoint-4"]
    # The chain begins with the first checkpoint.
    assert packer.store.names() == [f"checkpoint-{step}" for step in range(5)]
    assert content(packer.store.restore("checkpoint-2")) == originals[2]


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_checkpoint_that_is_removed_before_its_turn_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_whole: bool
) -> None:
    first, second = write(tmp_path, 0), write(tmp_path, 1)
    store = PackedCheckpoints(tmp_path / "packed")
    pack = store.pack

    def remove_and_pack(checkpoint: Any) -> Any:
        if checkpoint == first:
            shutil.rmtree(first if is_whole else first / "deep")
            if not is_whole:
                raise zstn.ZstnError("changed", "changed")
        return pack(checkpoint)

    monkeypatch.setattr(store, "pack", remove_and_pack)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with BackgroundPacker(store) as packer:
            packer.submit(first)
            packer.submit(second)
    assert store.names() == ["checkpoint-1"]


def test_a_checkpoint_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    missing = tmp_path / "typo"
    with BackgroundPacker(PackedCheckpoints(tmp_path / "packed")) as packer:
        with pytest.raises(FileNotFoundError) as error:
            packer.submit(missing)
        assert str(error.value.filename) == str(missing)
        # A trainer is not stopped.
        with pytest.warns(RuntimeWarning, match="typo could not be packed.*No such file"):
            packer._submit_or_warn(missing)
        packer.submit(write(tmp_path, 0))
    assert packer.store.names() == ["checkpoint-0"]


def test_the_store_is_not_a_path(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="store must be a PackedCheckpoints, not .* of type str"):
        BackgroundPacker(str(tmp_path / "packed"))  # type: ignore[arg-type]


def test_a_failure_leaves_the_original_and_warns(tmp_path: Path) -> None:
    packer = BackgroundPacker(PackedCheckpoints(tmp_path / "packed"))
    first, second = write(tmp_path, 0), write(tmp_path, 1)
    (first / "link").symlink_to("state.json")
    packer.submit(first)
    packer.submit(second)
    with pytest.warns(RuntimeWarning, match="checkpoint-0 could not be packed.* link"):
        packer.close()
    assert first.exists() and packer.store.names() == ["checkpoint-1"]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such names")
@pytest.mark.parametrize("name", ["a:b", "a\\b", os.fsdecode(b"\xff")])
def test_names_that_cannot_be_stored_are_refused(tmp_path: Path, name: str) -> None:
    (write(tmp_path, 0) / name).touch()
    store = PackedCheckpoints(tmp_path / "packed")
    with pytest.raises(zstn.ZstnError, match="cannot be stored"):
        store.pack(tmp_path / "checkpoint-0")
    assert store.names() == []


def test_cancelling_leaves_whole_checkpoints(tmp_path: Path) -> None:
    packer = BackgroundPacker(PackedCheckpoints(tmp_path / "packed"))
    paths = [write(tmp_path, step) for step in range(4)]
    for path in paths:
        packer.submit(path)
    packer.cancel()
    assert all(path.exists() for path in paths if path.name not in packer.store.names())
    assert not list((tmp_path / "packed").glob(".*"))
    with pytest.raises(ValueError, match="cancelled"):
        packer.submit(paths[0])


@pytest.mark.parametrize(
    ("key", "value"),
    [("path", "../a"), ("path", "/a"), ("path", "a\\b"), ("stored", "a/../../b"), ("base", ".."),
     ("base", "a/b"), ("base_path", "../a"), ("sha256", "0"), ("bytes", -1), ("bytes", "1"), ("lone", None)],
)  # fmt: skip
def test_hostile_descriptions_are_refused(tmp_path: Path, key: str, value: Any) -> None:
    store, _ = pack_all(tmp_path, 1)
    path = store.folder / "checkpoint-0" / "zstn-checkpoint.json"
    fields = json.loads(path.read_text())
    fields["files"][0][key] = value
    path.write_text(json.dumps(fields))
    with pytest.raises(zstn.ZstnError, match="does not describe a packed checkpoint") as caught:
        store.restore("checkpoint-0", tmp_path / "out")
    assert caught.value.code == "malformed"
    assert not (tmp_path / "out").exists()


def test_damage_is_found(tmp_path: Path) -> None:
    store, _ = pack_all(tmp_path, 2)
    path = store.folder / "checkpoint-0" / "state.json"
    path.write_text("[]")
    with pytest.raises(zstn.ZstnError, match="restores other bytes"):
        store.restore("checkpoint-0", tmp_path / "out")
    os.unlink(store.folder / "checkpoint-0" / "model.safetensors.zstn")
    with pytest.raises(FileNotFoundError):
        store.restore("checkpoint-1", tmp_path / "out")
    assert not [entry for entry in tmp_path.iterdir() if "out" in entry.name]


def test_a_cycle_of_bases_is_refused(tmp_path: Path) -> None:
    store, _ = pack_all(tmp_path, 2)
    path = store.folder / "checkpoint-0" / "zstn-checkpoint.json"
    fields = json.loads(path.read_text())
    for file in fields["files"]:
        if file["path"] == "model.safetensors":
            file["base"] = "checkpoint-1"
    path.write_text(json.dumps(fields))
    with pytest.raises(zstn.ZstnError, match="no base for model.safetensors"):
        store.restore("checkpoint-1", tmp_path / "out")
