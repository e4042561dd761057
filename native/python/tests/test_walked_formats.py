"""ONNX, msgpack, TensorFlow Lite, HDF5, Keras and tar files as NumPy arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import zstn
from range_server import serve
from test_gguf_npy import VECTORS, sha256, vectors

FORMATS = ["onnx", "msgpack", "tflite", "hdf5", "keras", "tar"]

#: The files that are converted, by their format. The others are called "types".
CONVERTED = {
    "onnx": "typed-fields.onnx",
    "hdf5": "types-earliest.h5",
    "keras": "chunks.keras",
    "tar": "gnu.nemo",
}
GOOD = [(kind, vector) for kind in FORMATS for vector in vectors(kind)]


def name_of(value: Any) -> str:
    return value if isinstance(value, str) else value["file"]


def readable(model: zstn.Reader) -> list[str]:
    """Returns the names of the tensors that can be read. The others have a reason."""

    def is_readable(name: str) -> bool:
        try:
            return model[name] is not None
        except zstn.ZstnError as error:
            assert str(error)
            return False

    return sorted(filter(is_readable, model))


@pytest.mark.parametrize("kind, vector", GOOD, ids=name_of)
def test_files_are_arrays_with_their_values(kind: str, vector: dict[str, Any]) -> None:
    with zstn.open(VECTORS / kind / vector["file"]) as model:
        assert model.kind == kind
        assert readable(model) == sorted(tensor["name"] for tensor in vector["tensors"])
        for tensor in vector["tensors"]:
            name = tensor["name"]
            assert (model[name].dtype, model[name].shape) == (
                tensor["dtype"],
                tuple(tensor["shape"]),
            )
            assert sha256(model.numpy(name)) == tensor["values_sha256"], name
        metadata = vector.get("metadata_text", {})
        assert {key: model.metadata[key] for key in metadata} == metadata


def test_values_in_other_files_are_read_over_http(tmp_path: Path) -> None:
    def field(number: int, content: bytes) -> bytes:
        return bytes([number << 3 | 2, len(content)]) + content

    place = field(13, field(1, b"location") + field(2, b"w.bin"))
    tensor = bytes([8, 6, 16, 2]) + field(8, b"far") + place + bytes([14 << 3, 1])
    (tmp_path / "m.onnx").write_bytes(bytes([8, 8]) + field(7, field(5, tensor)))
    (tmp_path / "w.bin").write_bytes(b"abcdef")
    with serve(tmp_path) as address:
        for place in (tmp_path / "m.onnx", f"{address}/m.onnx"):
            model = zstn.open(place)
            assert model.numpy("far").tobytes() == b"abcdef"
            assert list(model.slice("far")[2:4]) == list(b"cd")


@pytest.mark.parametrize("kind", FORMATS)
def test_conversion_keeps_the_values(kind: str, tmp_path: Path) -> None:
    source = VECTORS / kind / CONVERTED.get(kind, f"types.{kind}")
    zstn.convert(source, tmp_path / "out.zstn")
    with zstn.open(source) as model, zstn.open(tmp_path / "out.zstn") as converted:
        assert sorted(converted) == readable(model)
        for name in converted:
            assert converted.numpy(name).tobytes() == model.numpy(name).tobytes(), name
