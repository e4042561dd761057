"""Folders that show packed files under the names of their safetensors files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
from checkpoint_folders import files, pack_checkpoint, write_checkpoint, write_other_models
from conftest import assert_same, make_tensors
from stub_hub import StubHub

import zstn
from zstn.hub import shadow_folder


def test_packed_files_have_the_names_of_safetensors(
    hub: StubHub, cache: Path, plain_folder: Path
) -> None:
    packed = pack_checkpoint(plain_folder)
    hub.add("org/shadow", packed)
    for place in ("org/shadow", packed):
        folder = shadow_folder(place)
        assert folder is not None
        assert set(files(folder)) == set(files(plain_folder))
        for name, data in files(folder).items():
            if name.endswith(".safetensors"):
                assert data.startswith(b"ZSTN")
            else:
                assert data == (plain_folder / name).read_bytes()


def test_it_can_be_opened(cache: Path, plain_folder: Path) -> None:
    folder = shadow_folder(pack_checkpoint(plain_folder))
    assert folder is not None
    found: dict[str, np.ndarray] = {}
    for path in sorted(Path(folder).glob("*.safetensors")):
        with zstn.safe_open(path, "np") as file:
            found |= file.get_tensors()
    assert_same(found, make_tensors())


def test_nothing_is_packed(hub: StubHub, cache: Path, plain_folder: Path) -> None:
    hub.add("org/nothing", plain_folder)
    assert shadow_folder("org/nothing") is None
    assert shadow_folder(plain_folder) is None
    assert not hub.fetched("org/nothing")
    assert not cache.exists()


def test_weights_in_other_formats_are_not_downloaded(
    hub: StubHub, cache: Path, tmp_path: Path
) -> None:
    packed = files(pack_checkpoint(write_checkpoint(tmp_path / "plain")))
    others = {"pytorch_model.bin": b"pickle", "model.onnx": b"graph", "a.gguf": b"GGUF"}
    needed = {**packed, "encoder/pytorch_model.bin": b"the only one here"}
    hub.add("org/others", {**needed, **others})
    shadow_folder("org/others")
    assert hub.fetched("org/others") == set(needed)


def test_packed_files_of_other_formats_are_left_out(
    hub: StubHub, cache: Path, plain_folder: Path, tmp_path: Path
) -> None:
    plain = files(plain_folder)
    write_other_models(plain_folder)
    packed = pack_checkpoint(plain_folder)
    hub.add("org/left-out", packed)
    for place in ("org/left-out", packed):
        folder = shadow_folder(place)
        assert folder is not None
        assert files(folder).keys() - {"sub/vocabulary.bin"} == plain.keys()
    assert "model.gguf.zstn" not in hub.fetched("org/left-out")

    alone = tmp_path / "alone"
    alone.mkdir()
    shutil.copy(packed / "model.gguf.zstn", alone)
    assert shadow_folder(alone) is None


def test_variants(cache: Path, tmp_path: Path, packed: Path) -> None:
    folder = tmp_path / "variants"
    folder.mkdir()
    shutil.copy(packed, folder / "model.fp16-00001-of-00001.zstn")
    index = {"metadata": {}, "weight_map": {"ids": "model.fp16-00001-of-00001.zstn"}}
    (folder / "model.zstn.index.fp16.json").write_text(json.dumps(index))
    shown = shadow_folder(folder)
    assert shown is not None
    text = Path(shown, "model.safetensors.index.fp16.json").read_text()
    (shard,) = json.loads(text)["weight_map"].values()
    assert shard == "model.fp16-00001-of-00001.safetensors"
    assert Path(shown, shard).is_file()


def test_entries_that_become_folders_and_back(cache: Path, tmp_path: Path, packed: Path) -> None:
    folder, shared = tmp_path / "model", tmp_path / "shared"
    folder.mkdir()
    shared.mkdir()
    shutil.copy(packed, folder / "model.zstn")
    entry = folder / "encoder"
    entry.symlink_to(shared, target_is_directory=True)
    shadow_folder(folder)

    entry.unlink()
    entry.mkdir()
    weights = entry / "weights.bin"
    weights.write_bytes(b"mine")
    shown = shadow_folder(folder)
    assert shown is not None
    assert not weights.is_symlink() and weights.read_bytes() == b"mine"
    assert Path(shown, "encoder/weights.bin").read_bytes() == b"mine"

    shutil.rmtree(entry)
    entry.write_bytes(b"a file now")
    shown = shadow_folder(folder)
    assert shown is not None and Path(shown, "encoder").read_bytes() == b"a file now"
    entry.unlink()
    entry.mkdir()
    weights.write_bytes(b"mine again")
    shown = shadow_folder(folder)
    assert shown is not None and Path(shown, "encoder/weights.bin").read_bytes() == b"mine again"
