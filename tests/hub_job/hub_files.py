"""Generates the files of a small hub from a seed: families of a base and fine-tunes,
copies, and models without relatives."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import ml_dtypes
import numpy as np

import zstn.numpy

#: The families, given by the width of their matrices, with files from 30 kB to 2 MB.
_WIDTHS = (40, 48, 56, 64, 80, 96, 112, 144, 176, 208, 256, 320)
_LAYERS = 4


@dataclass(frozen=True)
class HubFile:
    """A file and its name in a listing."""

    name: str
    content: bytes

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.content).hexdigest()


def hub_files(count: int = 200, seed: int = 0) -> list[HubFile]:
    """Returns `count` files in twelve families, ordered by name. About one in eight is
    a copy of another file, and about one in ten has no relatives."""
    files = list(_files(count, seed))
    assert len({file.name for file in files}) == count
    return sorted(files, key=lambda file: file.name)


def _files(count: int, seed: int) -> Iterator[HubFile]:
    random = np.random.default_rng(seed)
    bases = [_tensors(random, width) for width in _WIDTHS]
    contents = [_save(tensors) for tensors in bases]
    for index in range(count):
        family = index % len(_WIDTHS)
        number = index // len(_WIDTHS)
        name = f"owner{family:02}/model{number:03}/model.safetensors"
        if number == 0:
            yield HubFile(name, contents[family])
        elif index % 8 == 5:
            # A fork, which has the same bytes as another file.
            yield HubFile(name, contents[int(random.integers(len(contents)))])
        elif index % 10 == 3:
            width = int(random.choice(_WIDTHS[:9]))
            yield HubFile(name, _save(_tensors(random, width)))
        else:
            content = _save(_tuned(random, bases[family]))
            contents.append(content)
            yield HubFile(name, content)


def _tensors(random: np.random.Generator, width: int) -> dict[str, np.ndarray]:
    tensors: dict[str, np.ndarray] = {}
    for layer in range(_LAYERS):
        for name, rows in (("attention", width), ("mlp", 3 * width)):
            values = random.standard_normal((rows, width), np.float32) * 0.02
            tensors[f"layers.{layer}.{name}.weight"] = values.astype(ml_dtypes.bfloat16)
        tensors[f"layers.{layer}.norm.weight"] = np.ones(width, ml_dtypes.bfloat16)
    return tensors


def _tuned(
    random: np.random.Generator, base: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Returns a fine-tune with small changes in about 60 % of the matrices."""
    tuned = dict(base)
    for name, values in base.items():
        if values.ndim == 2 and random.random() < 0.6:
            change = random.standard_normal(values.shape, np.float32) * 2e-4
            tuned[name] = (values.astype(np.float32) + change).astype(ml_dtypes.bfloat16)
    return tuned


def _save(tensors: dict[str, np.ndarray]) -> bytes:
    return zstn.numpy.save(tensors, {"format": "np"})
