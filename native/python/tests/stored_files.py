"""Fixtures for the tests of ``zstn://``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest
from fsspec.asyn import AsyncFileSystem

from zstn.fsspec import ZstnFileSystem


@pytest.fixture(autouse=True)
def fresh_instances() -> Iterator[None]:
    yield
    ZstnFileSystem.clear_instance_cache()
    fsspec.filesystem("memory").store.clear()


class Stored(AsyncFileSystem):
    """An asynchronous in-memory file system that counts the bytes read."""

    protocol = "stored"
    files: dict[str, bytes] = {}
    read: list[int] = []

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(path).lstrip("/")

    async def _info(self, path, **_):
        path = self._strip_protocol(path)
        if path not in self.files:
            raise FileNotFoundError(path)
        return {"name": path, "type": "file", "size": len(self.files[path])}

    async def _ls(self, path, detail=True, **_):
        found = [await self._info(name) for name in self.files]
        return found if detail else [entry["name"] for entry in found]

    async def _cat_file(self, path, start=None, end=None, **_):
        part = self.files[self._strip_protocol(path)][start:end]
        self.read.append(len(part))
        return part


@pytest.fixture
def stored(packed: Path) -> type[Stored]:
    fsspec.register_implementation("stored", Stored, clobber=True)
    Stored.files = {"folder/m.zstn": packed.read_bytes()}
    Stored.read = []
    Stored.clear_instance_cache()
    return Stored
