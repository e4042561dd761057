"""Files in fsspec file systems as inputs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import zstn
from conftest import assert_same

fsspec = pytest.importorskip("fsspec")


@pytest.fixture
def url(packed: Path):
    """Returns the URL of a file in fsspec's in-memory file system."""
    from fsspec.implementations.memory import MemoryFileSystem

    class Counting(MemoryFileSystem):
        protocol = "counting"
        store: dict = {}
        fetched: list = []

        @classmethod
        def _strip_protocol(cls, path):
            return super()._strip_protocol(path.removeprefix("counting://"))

        def cat_file(self, path, start=None, end=None, **options):
            part = super().cat_file(path, start=start, end=end, **options)
            self.fetched.append(len(part))
            return part

    fsspec.register_implementation("counting", Counting, clobber=True)
    fs = fsspec.filesystem("counting")
    fs.pipe_file("/folder/a.zstn", packed.read_bytes())
    Counting.fetched.clear()
    yield "counting://folder/a.zstn"
    fs.rm("/folder", recursive=True)


def test_addresses_files_and_chains(url: str, packed: Path, tensors) -> None:
    fs = fsspec.filesystem("counting")
    with fs.open("/folder/a.zstn") as file:
        for source in [url, fsspec.open(url), file, f"simplecache::{url}", f"local://{packed}"]:
            with zstn.open(source) as model:
                assert_same({name: model.numpy(name) for name in model}, tensors)


def test_reads_what_is_asked_for(url: str, tmp_path: Path) -> None:
    fs = fsspec.filesystem("counting")
    array = np.random.default_rng(0).standard_normal((4096, 256)).astype(np.float32)
    zstn.numpy.save_file({"a": array, "b": array + 1}, tmp_path / "a.safetensors")
    fs.pipe_file("/folder/b.safetensors", (tmp_path / "a.safetensors").read_bytes())
    with zstn.open("counting://folder/b.safetensors") as model:
        type(fs).fetched.clear()
        assert (model.slice("b")[7:9, 1] == array[7:9, 1] + 1).all()
    assert 257 * 4 <= sum(type(fs).fetched) < 1 << 20


def test_what_goes_wrong(url: str) -> None:
    fs = fsspec.filesystem("counting")
    with pytest.raises(FileNotFoundError):
        zstn.open("counting://folder/nothing.zstn")
    with pytest.raises(IsADirectoryError):
        zstn.open("counting://folder")
    with zstn.open(url) as model:
        fs.pipe_file("/folder/a.zstn", b"short")
        with pytest.raises(zstn.ZstnError, match="gave"):
            model.numpy("wte.weight")


def test_packing_from_one_to_a_path(url: str, tmp_path: Path, plain: Path) -> None:
    zstn.unpack(url, tmp_path / "a.safetensors")
    assert (tmp_path / "a.safetensors").read_bytes() == plain.read_bytes()
    assert zstn.verify(url, original=plain).compared
