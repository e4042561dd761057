"""Runs the tests of z4ai with `zstn.z4ai` in place of the package."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from pathlib import Path

import pytest

import zstn.z4ai

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE / "tests")]

sys.modules["z4ai"] = zstn.z4ai
for _module in pkgutil.iter_modules(zstn.z4ai.__path__):
    _name = f"zstn.z4ai.{_module.name}"
    sys.modules[f"z4ai.{_module.name}"] = importlib.import_module(_name)
sys.modules["benchmarks._data"] = importlib.import_module("_data")
sys.modules["benchmarks"] = type(sys)("benchmarks")

from skips import FILES, TESTS  # noqa: E402 - found by the line above


@pytest.fixture
def z4ai():
    return zstn.z4ai


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
