"""Helpers that write plain and packed checkpoints to folders."""

from __future__ import annotations

import json
from pathlib import Path

import safetensors.numpy
from conftest import make_tensors

import zstn

VECTORS = Path(__file__).parents[3] / "tests/vectors"


def write_checkpoint(folder: Path, shards: int = 1, seed: int = 0) -> Path:
    """Writes a plain checkpoint, with other files in the same folder."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text('{"hidden_size": 40}')
    (folder / "sub").mkdir()
    (folder / "sub" / "notes.txt").write_text("hello")
    names = sorted(make_tensors(seed))
    tensors = make_tensors(seed)
    if shards == 1:
        safetensors.numpy.save_file(tensors, folder / "model.safetensors", {"format": "pt"})
        return folder
    weight_map = {}
    for number in range(shards):
        file = f"model-{number + 1:05}-of-{shards:05}.safetensors"
        part = {name: tensors[name] for name in names[number::shards]}
        safetensors.numpy.save_file(part, folder / file, {"format": "pt"})
        weight_map.update(dict.fromkeys(part, file))
    index = {"metadata": {"total_size": 1}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")
    return folder


def write_other_models(folder: Path) -> dict[str, bytes]:
    """Writes models of other formats than safetensors, and a file that only has the name
    of one, and returns their bytes."""
    gguf = VECTORS / "gguf/dense-types.gguf"
    written = {"model.gguf": gguf.read_bytes(), "sub/vocabulary.bin": b"no model"}
    for name, data in written.items():
        (folder / name).write_bytes(data)
    return written


def pack_checkpoint(plain: Path, effort: str = "balanced") -> Path:
    packed = plain.with_name(f"{plain.name}-{effort}-packed")
    zstn.pack(plain, packed, effort=effort)
    return packed


def files(folder: str | Path) -> dict[str, bytes]:
    root = Path(folder)
    paths = (path for path in root.rglob("*") if path.is_file())
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in paths}
