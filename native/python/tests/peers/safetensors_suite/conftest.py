"""Runs the tests of safetensors with zstn in place of the package. Without torch, tests
that need it are skipped."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

try:
    import safetensors.torch as theirs
except ImportError:
    theirs = None

import zstn
import zstn.numpy
from zstn._safe_open import _safe_open_handle

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE)]

from skips import FILES, TESTS  # noqa: E402 - found by the line above


class Absent(ModuleType):
    """Replaces a module that is not installed; a test that uses it is skipped."""

    def __getattr__(self, name: str):
        if name.startswith("__"):
            raise AttributeError(name)

        def skip(*_: object, **__: object):
            pytest.skip(f"needs {self.__name__}")

        return skip


ours = ModuleType("safetensors")
ours.__path__ = []  # type: ignore[attr-defined] - a package
ours.SafetensorError = zstn.ZstnError.__mro__[1]  # type: ignore[attr-defined]
ours.safe_open = zstn.safe_open  # type: ignore[attr-defined]
ours._safe_open_handle = _safe_open_handle  # type: ignore[attr-defined]
ours.TensorSpec = ours.serialize = None  # type: ignore[attr-defined]
sys.modules["safetensors"] = ours
sys.modules["safetensors.numpy"] = zstn.numpy
if theirs is None:
    for name in ("torch", "safetensors.torch"):
        sys.modules[name] = Absent(name)
else:
    import zstn.torch

    # `save_model` and `load_model` are safetensors' own, and use these functions.
    for name in ("save", "save_file", "load", "load_file"):
        setattr(theirs, name, getattr(zstn.torch, name))
    theirs.safe_open = zstn.safe_open


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Some of the tests write to this folder.
    (tmp_path / "tests" / "data").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    return True if collection_path.name in FILES else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for name in (item.name, item.name.partition("[")[0]):
            reason = TESTS.get(f"{item.path.name}::{name}")
            if reason is not None:
                item.add_marker(pytest.mark.skip(reason=reason))
                break


def pytest_terminal_summary(terminalreporter) -> None:
    for name, reason in FILES.items():
        terminalreporter.write_line(f"LEFT OUT {name}: {reason}")
