"""Packing, restoring, verifying and converting."""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import re
from pathlib import Path

import numpy as np
import pytest

import zstn
import zstn.numpy
from checkpoint_folders import write_checkpoint
from conftest import assert_same


def test_packing_and_back(tmp_path: Path, plain: Path, tensors) -> None:
    packed, restored = tmp_path / "a.zstn", tmp_path / "a.safetensors"
    report = zstn.pack(plain, packed, effort="max", threads=2, memory=1 << 28)
    assert isinstance(report, zstn.PackReport)
    assert report.original_bytes == plain.stat().st_size
    assert report.packed_bytes == packed.stat().st_size
    assert report.tensors == len(tensors) and report.files[0].storage == "indexed"
    assert report.ratio == report.original_bytes / report.packed_bytes

    # Without a packed input, only tensors are compared.
    unpacked = zstn.verify(plain, original=plain)
    assert unpacked.compared and not unpacked.identical
    verified = zstn.verify(packed, original=plain)
    assert verified.compared and verified.has_digests
    report = zstn.unpack(packed, restored)
    assert report.original_bytes == plain.stat().st_size
    assert restored.read_bytes() == plain.read_bytes()


def test_a_known_sha256_is_compared_when_restoring(tmp_path: Path, plain: Path) -> None:
    packed, restored = tmp_path / "a.zstn", tmp_path / "a.safetensors"
    digest, wrong = hashlib.sha256(plain.read_bytes()).hexdigest(), "ab" * 32
    computed = zstn.pack(plain, packed)
    report = zstn.pack(plain, packed, sha256=digest.upper())
    assert report.packed_bytes == computed.packed_bytes + 12
    zstn.unpack(packed, restored)
    assert restored.read_bytes() == plain.read_bytes()
    restored.unlink()
    assert zstn.verify(packed, confirm=True).files[0].is_confirmed
    assert packed.stat().st_size == computed.packed_bytes
    assert not zstn.verify(packed, confirm=True).files[0].is_confirmed

    zstn.pack(plain, packed, sha256=wrong)
    for fails in (lambda: zstn.unpack(packed, restored), lambda: zstn.verify(packed)):
        with pytest.raises(zstn.ZstnError, match=f"{digest}, not {wrong}") as error:
            fails()
        assert error.value.code == "malformed"
    assert not restored.exists()
    fast = zstn.verify(packed, fast=True)
    assert fast.has_digests and not fast.files[0].has_file_digest
    # Single tensors remain readable, because each has its own digest.
    assert set(zstn.numpy.load_file(packed)) == set(zstn.numpy.load_file(plain))


def test_a_sha256_without_a_place(tmp_path: Path, plain: Path) -> None:
    target, digest = tmp_path / "a.zstn", "ab" * 32
    for text in ("", "ab", "xy" * 32, f"sha256:{digest}"):
        with pytest.raises(ValueError, match="64 hexadecimal digits"):
            zstn.pack(plain, target, sha256=text)
    with pytest.raises(ValueError, match="delta"):
        zstn.pack(plain, target, base=plain, sha256=digest)
    with pytest.raises(zstn.ZstnError, match="several files") as error:
        zstn.pack(plain.parent, tmp_path / "packed", sha256=digest)
    assert error.value.code == "usage"
    assert not target.exists()


def test_reports_are_values(tmp_path: Path, plain: Path) -> None:
    report = zstn.pack(plain, tmp_path / "a.zstn")
    assert pickle.loads(pickle.dumps(report)) == report
    with pytest.raises(AttributeError):
        report.files = []  # type: ignore[misc]


def test_an_object_store_as_output_and_input(plain: Path, tmp_path: Path) -> None:
    report = zstn.pack(plain, "memory://models/a.zstn")
    (file,) = report.files
    assert (file.output, file.upload) == ("memory://models/a.zstn", zstn.Uploaded(0, 0))
    assert zstn.pack(plain, tmp_path / "a.zstn").files[0].upload is None
    report = zstn.unpack("memory://models/a.zstn", "memory://models/a.safetensors")
    assert report.files[0].upload == zstn.Uploaded(0, 0)
    converted = zstn.convert("memory://models/a.safetensors", "memory://models/a.zt")
    assert converted.kind == "ztensor"


class Pieces:
    """A writer without a method `flush`, which collects the written bytes."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []

    def write(self, piece: bytes) -> int:
        self.pieces.append(piece)
        return len(piece)


def test_objects_to_write_to(tmp_path: Path, plain: Path, packed: Path) -> None:
    expected = packed.read_bytes()
    with io.BytesIO() as memory, open(tmp_path / "raw", "wb", buffering=0) as raw:
        for sink in (memory, raw):
            report = zstn.pack(plain, sink)
            assert (report.files[0].output, report.packed_bytes) == (None, len(expected))
        assert memory.getvalue() == expected
    assert (tmp_path / "raw").read_bytes() == expected
    pieces = Pieces()
    zstn.pack(plain, pieces, threads=2)
    assert b"".join(pieces.pieces) == expected
    restored = io.BytesIO()
    zstn.unpack(packed, restored)
    assert restored.getvalue() == plain.read_bytes()
    with pytest.raises(zstn.ZstnError, match="cannot be written to a stream"):
        zstn.pack(write_checkpoint(tmp_path / "several", 2), io.BytesIO())


def test_an_exception_of_the_object_is_raised(plain: Path) -> None:
    class Full:
        def write(self, piece: bytes) -> int:
            raise KeyError("no room")

    with pytest.raises(KeyError, match="no room"):
        zstn.pack(plain, Full())
    with pytest.raises(TypeError):
        zstn.pack(plain, object())


def test_threads_do_not_change_the_file(tmp_path: Path, plain: Path) -> None:
    packed = []
    for threads in (0, 1, 3):
        zstn.pack(plain, tmp_path / "a.zstn", threads=threads)
        packed.append((tmp_path / "a.zstn").read_bytes())
    assert packed[0] == packed[1] == packed[2]


def test_a_delta_needs_its_base(tmp_path: Path, plain: Path, tensors) -> None:
    tuned, delta, restored = (tmp_path / name for name in ("t.safetensors", "t.z4dm", "r"))
    tensors["wte.weight"] = tensors["wte.weight"] * 1.001
    zstn.numpy.save_file(tensors, tuned)
    report = zstn.pack(tuned, delta, base=plain)
    assert report.files[0].storage == "delta"
    assert report.files[0].copied == len(tensors) - 1 and report.files[0].differing == 1

    with pytest.raises(zstn.ZstnError) as error:
        zstn.unpack(delta, restored)
    assert error.value.code == "needs_base"
    # These functions have no argument for a base.
    for call in (
        lambda: zstn.numpy.load_file(delta),
        lambda: zstn.numpy.load(delta.read_bytes()),
        lambda: zstn.safe_open(delta, "np").get_tensor("wte.weight"),
        lambda: zstn.safe_open(delta, "np").get_slice("wte.weight")[:2],
        lambda: zstn.open(delta).read("wte.weight"),
    ):
        advice = "; give that checkpoint to `zstn.open(…, base=…)` or `zstn.unpack(…, base=…)`"
        with pytest.raises(zstn.ZstnError, match=f"is a delta .*{re.escape(advice)}$") as error:
            call()
        assert error.value.code == "needs_base"
        assert str(pickle.loads(pickle.dumps(error.value))) == str(error.value)
    zstn.unpack(delta, restored, base=plain)
    assert restored.read_bytes() == tuned.read_bytes()
    assert zstn.verify(delta, base=[plain]).has_digests
    with zstn.open(delta, base=plain) as model:
        assert (model.numpy("wte.weight") == tensors["wte.weight"]).all()


def test_a_base_is_found_in_a_family(tmp_path: Path, plain: Path, tensors) -> None:
    models = tmp_path / "models"
    models.mkdir()
    (models / "base.safetensors").write_bytes(plain.read_bytes())
    sketched = zstn.sketch(models / "base.safetensors", models / "base.sketch")
    assert sketched.tensors == sketched.digested_tensors == len(tensors)
    assert sketched.sketch_bytes == (models / "base.sketch").stat().st_size
    with pytest.raises(zstn.ZstnError, match="is being read"):
        zstn.sketch(plain, plain)
    assert plain.read_bytes() == (models / "base.safetensors").read_bytes()
    tuned, delta = tmp_path / "t.safetensors", tmp_path / "t.z4dm"
    tensors["wte.weight"] = tensors["wte.weight"] * 1.001
    zstn.numpy.save_file(tensors, tuned)
    report = zstn.pack(tuned, delta, base="auto", family=models)
    family = report.family
    assert family is not None and family.candidates == 1 and family.left_out == []
    assert family.bases == [str(models / "base.safetensors")]
    assert family.expected_bytes < family.expected_plain_bytes
    assert report.files[0].storage == "delta"
    zstn.unpack(delta, tmp_path / "r", base=family.bases)
    assert (tmp_path / "r").read_bytes() == tuned.read_bytes()
    assert zstn.pack(plain, tmp_path / "p.zstn").family is None
    for arguments in ({"base": "auto"}, {"family": models}):
        with pytest.raises(ValueError, match="base="):
            zstn.pack(tuned, delta, **arguments)


def test_folders(tmp_path: Path, tensors) -> None:
    names = sorted(tensors)
    shards = tmp_path / "shards"
    shards.mkdir()
    whole = tmp_path / "whole.safetensors"
    zstn.numpy.save_file(tensors, whole)
    index = shards / "model.safetensors.index.json"
    report = zstn.convert(whole, index, shard_bytes=20_000)
    assert report.kind == "safetensors" and report.tensors == len(names)
    report = zstn.pack(shards, tmp_path / "packed")
    assert len(report.files) > 1 and report.folder is not None
    assert report.folder.index == "model.zstn.index.json"
    with zstn.open(tmp_path / "packed") as model:
        assert_same({name: model.numpy(name) for name in model}, tensors)


def test_conversion_by_name_and_keyword(tmp_path: Path, plain: Path, tensors) -> None:
    report = zstn.convert(plain, tmp_path / "a.zt")
    assert (report.source_kind, report.kind) == ("safetensors", "ztensor")
    zstn.convert(tmp_path / "a.zt", tmp_path / "b", to="zstn")
    with zstn.open(tmp_path / "b") as model:
        assert model.kind == "zstn"
        assert_same({name: model.numpy(name) for name in model}, tensors)
    with pytest.raises(ValueError, match="compressed-tensors"):
        zstn.convert(plain, tmp_path / "c", to="gguf")
    with pytest.raises(ValueError, match="to="):
        zstn.convert(plain, tmp_path / "c")


def test_errors_have_codes(tmp_path: Path, plain: Path, packed: Path) -> None:
    other = tmp_path / "other.safetensors"
    zstn.numpy.save_file({"x": np.ones(3)}, other)
    damaged = tmp_path / "damaged.zstn"
    content = bytearray(packed.read_bytes())
    content[len(content) // 2] ^= 1
    damaged.write_bytes(content)
    for code, call in {
        "differs": lambda: zstn.verify(packed, original=other),
        "exists": lambda: zstn.pack(plain, packed, overwrite=False),
        "usage": lambda: zstn.pack(packed, tmp_path / "again.zstn"),
        "malformed": lambda: zstn.verify(damaged),
    }.items():
        with pytest.raises(zstn.ZstnError) as error:
            call()
        assert error.value.code == code, str(error.value)
        assert not error.value.retryable
        again = pickle.loads(pickle.dumps(error.value))
        assert (str(again), again.code) == (str(error.value), code)
    with pytest.raises(zstn.ZstnError) as unreachable:
        zstn.open("http://127.0.0.1:1/model.zstn")
    again = pickle.loads(pickle.dumps(unreachable.value))
    assert again.code == "http"
    assert again.retryable
    with pytest.raises(FileNotFoundError) as missing:
        zstn.pack(tmp_path / "nothing", tmp_path / "a.zstn")
    assert "nothing" in str(missing.value)
    with pytest.raises(ValueError, match="balanced"):
        zstn.pack(plain, tmp_path / "a.zstn", effort="best")
    assert not any(name.startswith(("a.zstn", "again")) for name in os.listdir(tmp_path))


class Bar:
    """The attributes and methods of tqdm that zstn uses."""

    made: list[Bar] = []

    def __init__(self, *, total, unit, unit_scale, desc) -> None:
        self.total, self.desc, self.count, self.is_closed = total, desc, 0, False
        Bar.made.append(self)

    def update(self, count: int) -> None:
        self.count += count

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: object) -> None:
        self.is_closed = True


def test_progress(tmp_path: Path, plain: Path) -> None:
    seen: list[tuple[int, int]] = []
    zstn.pack(plain, tmp_path / "a.zstn", progress=lambda done, total: seen.append((done, total)))
    done, total = seen[-1]
    assert done == total > 0
    Bar.made.clear()
    zstn.verify(tmp_path / "a.zstn", progress=Bar)
    (bar,) = Bar.made
    assert bar.is_closed and bar.count == bar.total > 0 and bar.desc == "verifying"
    bar = Bar(total=None, unit="", unit_scale=True, desc="")
    zstn.unpack(tmp_path / "a.zstn", tmp_path / "b.safetensors", progress=bar)
    assert bar.count == bar.total and not bar.is_closed
    with pytest.raises(TypeError):
        zstn.verify(tmp_path / "a.zstn", progress=3)


def test_an_exception_of_progress_ends_the_work(tmp_path: Path) -> None:
    tensors = {f"t{n}": np.random.default_rng(n).random((256, 1024)) for n in range(24)}
    zstn.numpy.save_file(tensors, tmp_path / "a.safetensors")

    def stop(done: int, total: int) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        zstn.pack(tmp_path / "a.safetensors", tmp_path / "a.zstn", effort="max", progress=stop)
    assert not (tmp_path / "a.zstn").exists()


def test_differences_are_measured(tmp_path: Path) -> None:
    one = np.ones((4, 4), np.float32)
    other = one.copy()
    other[1, 2], other[3, 3] = 3.0, np.nan
    base, tuned = tmp_path / "base.zstn", tmp_path / "tuned.safetensors"
    shared = {"kept": np.arange(9, dtype=np.int32)}
    zstn.numpy.save_file({**shared, "w": one, "old": one}, base)
    zstn.numpy.save_file({**shared, "w": other}, tuned)
    report = zstn.diff(base, tuned)
    assert not report.is_equal and report.equal_tensors == 1
    assert (report.only_in_first, report.only_in_second) == (["old"], [])
    (tensor,) = report.changed
    assert tensor.name == "w" and tensor.shapes == ((4, 4), (4, 4))
    assert tensor.dtypes == ("F32", "F32")
    assert (tensor.changed_elements, tensor.lost_finite, tensor.max_change) == (2, 1, 2.0)
    assert tensor.relative_change == pytest.approx(2 / np.sqrt(15))
    assert report.changed_elements == 2 and report.elements == 25
    names = zstn.diff(base, tuned, figures=False)
    assert [t.name for t in names.changed] == ["w"] and names.changed_elements is None
    assert zstn.diff(tuned, tuned.read_bytes()).is_equal
