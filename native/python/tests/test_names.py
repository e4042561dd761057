"""Names of files and indexes, from the table that the tests of all languages use."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from zstn.hub import _names

TABLE = json.loads((Path(__file__).parents[3] / "tests/names.json").read_text())


@pytest.mark.parametrize("row", TABLE["names"], ids=lambda row: row["plain"])
def test_packing_changes_one_part_of_a_name(row: dict[str, str]) -> None:
    plain, packed = row["plain"], row["packed"]
    assert _names.packed_name(plain) == packed
    assert _names.restored_name(packed) == plain
    assert _names.restored_name(plain) is None
    assert _names.is_plain_index(plain) is row.get("index", False)


@pytest.mark.parametrize("name", TABLE["others"])
def test_other_names_stay(name: str) -> None:
    assert _names.packed_name(name) == name
    assert _names.restored_name(name) is None
    assert not _names.is_plain_index(name)


def test_a_variant_is_found_wherever_it_is_written() -> None:
    names = ["m.safetensors", "m.safetensors.index.fp16.json", "m.safetensors.fp16.index.json"]
    assert set(_names.other_variants(names, "fp16")) == {"m.safetensors"}
    assert set(_names.other_variants(names, None)) == set(names[1:])
