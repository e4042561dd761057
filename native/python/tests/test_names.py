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


@pytest.mark.parametrize("name", ["model.gguf", "a.b/pytorch_model.bin", "x.npy", "v1.5.onnx"])
def test_packing_appends_to_the_names_of_other_models(name: str) -> None:
    assert _names.packed_name(name) == f"{name}.zstn"
    assert _names.restored_name(f"{name}.zstn") == name
    assert _names.restored_name(name) is None
    assert _names.is_other_model(name) and _names.restores_other_model(f"{name}.zstn")
    assert not _names.is_plain_index(name)


def test_packed_files_of_other_models_are_weights_in_another_format() -> None:
    names = ["a/model.zstn", "a/model.gguf.zstn", "a/model.bin", "b/model.gguf.zstn", "b/x.bin"]
    assert [*_names.other_formats(names)] == ["a/model.gguf.zstn", "a/model.bin"]
    assert not [*_names.other_variants(names, "gguf")]
    assert all(map(_names.is_weights, names))


def test_a_name_that_is_no_text_is_not_the_name_of_a_model() -> None:
    assert _names.restored_name("\udcff.zstn") is None
    assert _names.packed_name("\udcff.gguf") == "\udcff.gguf"


@pytest.mark.parametrize("name", TABLE["others"])
def test_other_names_stay(name: str) -> None:
    assert _names.packed_name(name) == name
    assert _names.restored_name(name) is None
    assert not _names.is_plain_index(name)


def test_a_variant_is_found_wherever_it_is_written() -> None:
    names = ["m.safetensors", "m.safetensors.index.fp16.json", "m.safetensors.fp16.index.json"]
    assert set(_names.other_variants(names, "fp16")) == {"m.safetensors"}
    assert set(_names.other_variants(names, None)) == set(names[1:])
