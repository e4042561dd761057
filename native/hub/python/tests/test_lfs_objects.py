"""The variants of objects that a git-lfs server stores."""

import hashlib
import io
import json
import struct

import numpy
import pytest
import zstn
from zstn_hub import _lfs_objects
from zstn_hub._lfs_objects import ObjectError, ObjectFolder


def checkpoint(byte, length):
    tensor = {"dtype": "U8", "shape": [length], "data_offsets": [0, length]}
    header = json.dumps({"a": tensor}).encode()
    return struct.pack("<Q", len(header)) + header + byte * length


def name(content):
    return hashlib.sha256(content).hexdigest()


def files(folder):
    return [path.read_bytes() for path in folder.rglob("*") if path.is_file()]


def test_a_form_that_no_agent_takes_is_refused(tmp_path):
    content = checkpoint(b"x", 4)
    (tmp_path / "original").write_bytes(content)
    zstn.pack(tmp_path / "original", tmp_path / "packed")
    packed = (tmp_path / "packed").read_bytes()
    assert len(packed) > len(content) + 8
    folder = ObjectFolder(tmp_path / "objects")
    with pytest.raises(ObjectError, match="longer"):
        folder.add_stored("p", name(content), io.BytesIO(packed))
    assert files(tmp_path / "objects") == []
    folder.add_stored("p", name(content), io.BytesIO(content))
    assert files(tmp_path / "objects") == [content]


def test_an_enveloped_object_is_taken(tmp_path):
    folder = ObjectFolder(tmp_path)
    folder.add_stored("p", name(b"ZSTN"), io.BytesIO(b"ZLFS\x01\0\0\0ZSTN"))
    with folder.open_original("p", name(b"ZSTN")) as original:
        assert original.read() == b"ZSTN"


@pytest.mark.parametrize("damage", ["other", "cut"])
def test_the_only_copy_is_one_that_unpacks(tmp_path, monkeypatch, damage):
    content, other = checkpoint(b"x", 100_000), checkpoint(b"y", 100_000)
    (tmp_path / "other").write_bytes(other)

    def pack_badly(source, target):
        report = zstn.pack(tmp_path / "other", target, overwrite=True)
        if damage == "cut":
            with open(target, "r+b") as file:
                file.truncate(100)
        return report

    folder = ObjectFolder(tmp_path / "objects")
    monkeypatch.setattr(_lfs_objects, "pack", pack_badly)
    folder.add_plain("p", name(content), io.BytesIO(content))
    assert files(tmp_path / "objects") == [content]
    monkeypatch.undo()
    again = ObjectFolder(tmp_path / "again")
    again.add_plain("p", name(content), io.BytesIO(content))
    [stored] = files(tmp_path / "again")
    assert stored.startswith(b"ZSTN")


def test_only_models_are_packed(tmp_path, monkeypatch):
    packed = []

    def pack(source, target):
        packed.append(source)
        return zstn.pack(source, target, overwrite=True)

    monkeypatch.setattr(_lfs_objects, "pack", pack)
    array = io.BytesIO()
    numpy.save(array, numpy.zeros(20_000, numpy.float32))
    damaged = checkpoint(b"x", 100_000).replace(b"U8", b"??")
    contents = [b"a video" * 20_000, checkpoint(b"x", 100_000), array.getvalue(), damaged]
    for number, content in enumerate(contents):
        folder = tmp_path / str(number)
        ObjectFolder(folder).add_plain("p", name(content), io.BytesIO(content))
        [stored] = files(folder)
        assert stored.startswith(b"ZSTN") == (number > 0)
        assert len(packed) == number
