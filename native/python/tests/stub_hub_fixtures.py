"""A model hub for all tests of a run, and the folder for restored files."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from stub_hub import StubHub

_HUB = pytest.StashKey[StubHub]()


def pytest_configure(config: pytest.Config) -> None:
    """Starts a hub before huggingface_hub, which reads its settings on import, is
    imported."""
    home = tempfile.TemporaryDirectory(prefix="zstn-hf-")
    server = StubHub("--xet", f"{home.name}/xet")
    os.environ.update(
        HF_ENDPOINT=server.endpoint,
        HF_HOME=home.name,
        HF_HUB_DISABLE_PROGRESS_BARS="1",
        HF_HUB_DISABLE_TELEMETRY="1",
        HF_HUB_DISABLE_XET="1",
    )
    for name in ("HF_TOKEN", "HF_HUB_CACHE", "HF_HUB_OFFLINE", "ZSTN_CACHE"):
        os.environ.pop(name, None)
    config.stash[_HUB] = server
    config.add_cleanup(home.cleanup)
    config.add_cleanup(server.close)


@pytest.fixture
def hub(request: pytest.FixtureRequest) -> Iterator[StubHub]:
    server = request.config.stash[_HUB]
    server.clear_log()
    yield server
    server.clear()
    server.heal()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Sets the folder for restored files."""
    folder = tmp_path / "zstn-cache"
    monkeypatch.setenv("ZSTN_CACHE", str(folder))
    return folder
