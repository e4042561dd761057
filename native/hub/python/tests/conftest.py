"""Sources and servers for the tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from gateway import Gateway
from hub_source import tuned, weights, write
from moto import Moto
from stub_hub_fixtures import cache, hub, pytest_configure  # noqa: F401


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A source with six files, two of them equal and one corrupt."""
    folder = tmp_path / "source"
    for number in range(4):
        write(folder, f"a/m{number}/model.safetensors", weights(number, 20_000 * (number + 1)))
    write(folder, "b/copy/sub/model.safetensors", weights(2, 60_000))
    (folder / "b/bad").mkdir()
    (folder / "b/bad/model.safetensors").write_bytes(b"\x10\0\0\0\0\0\0\0{\"x\": nonsense")
    (folder / "b/bad/config.json").write_text("{}")
    return folder


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


@pytest.fixture
def families(tmp_path: Path) -> Path:
    """A source with two families of one layout, each with a base and three fine-tunes,
    and an unrelated file."""
    folder = tmp_path / "source"
    for family in range(2):
        base = weights(family, 60_000)
        write(folder, f"f{family}/base/model.safetensors", base)
        for number in range(3):
            path = f"f{family}/tuned{number}/model.safetensors"
            write(folder, path, tuned(base, 10 * family + number))
    write(folder, "x/alone/model.safetensors", weights(7, 60_000))
    return folder


@pytest.fixture
def hub_server(tmp_path: Path) -> Iterator[str]:
    """The endpoint of a hub with the files of the source, served by a gateway."""
    source = tmp_path / "source"
    source.mkdir(exist_ok=True)
    gateway = Gateway(source)
    yield gateway.endpoint
    gateway.close()


@pytest.fixture(scope="module")
def moto() -> Iterator[Moto]:
    server = Moto()
    yield server
    server.close()
