"""Decides how each file of a checkpoint gets into the packed checkpoint."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum

from .._errors import ZstnError
from ..hub._names import (
    check_name,
    is_other_model,
    packed_name,
    packed_weights,
    restored_index,
)


class Step(Enum):
    """The treatment of a file in a packed checkpoint."""

    PACK = "packed"
    INDEX = "index"
    COPY = "as it is"


@dataclass(frozen=True, slots=True)
class Entry:
    """A file, with its path in the packed checkpoint."""

    name: str
    path: str
    step: Step


def plan(names: Iterable[str], is_copied: Callable[[str], bool] = lambda _: False) -> list[Entry]:
    """Returns an entry for each of the named files. `is_copied` returns whether a file is
    not packed although it is named like a model of another format than safetensors.

    Raises:
        ZstnError: if two files would have the same path.
    """
    entries: dict[str, Entry] = {}
    for name in sorted(names):
        entry = _entry(name, is_copied)
        other = entries.setdefault(entry.path, entry)
        if other is not entry:
            both = f"{other.name} and {name}"
            raise ZstnError(f"{both} would both be called {entry.path}; remove one")
    return list(entries.values())


def _entry(name: str, is_copied: Callable[[str], bool]) -> Entry:
    path = packed_name(name)
    if is_other_model(name) and is_copied(name):
        path = name
    if path == name:
        return Entry(name, name, Step.COPY)
    return Entry(name, path, Step.INDEX if name.endswith(".json") else Step.PACK)


def packed_index(name: str, text: bytes, available: Iterable[str]) -> bytes:
    """Returns the index with the packed names of its files (docs/formats/sharded.md 3).

    Raises:
        ZstnError: if it lists files that are not available, or cannot be restored by
            reversing the names.
    """
    weights, available = _weight_map(name, text), set(available)
    for shard in sorted(set(weights.values())):
        check_name(shard)
        if posixpath.join(posixpath.dirname(name), shard) not in available:
            raise ZstnError(f"{name} names {shard}, which is not there", "malformed")
    packed = text.replace(b'.safetensors"', b'.zstn"')
    expected = {tensor: packed_weights(shard) for tensor, shard in weights.items()}
    if restored_index(packed) != text or _weight_map(name, packed) != expected:
        raise ZstnError(f"{name} could not be restored from its packed version", "malformed")
    return packed


def _weight_map(name: str, text: bytes) -> dict[str, str]:
    try:
        weights = json.loads(text)["weight_map"]
        if all(isinstance(shard, str) for shard in weights.values()):
            return weights
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    raise ZstnError(f"{name} is not the index of a checkpoint in several files", "malformed")
