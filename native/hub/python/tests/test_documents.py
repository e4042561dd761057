"""Runs the examples in the documents, and compares the versions of both packages."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
import zstn_hub
from hub_source import weights, write

import zstn

_ROOT = Path(__file__).parents[4]
_README = Path(__file__).parents[1] / "README.md"


def blocks(document: Path, language: str) -> list[str]:
    """Returns the code blocks of a document in a language."""
    text = document.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("document", [_README, _ROOT / "docs/whole-hub.md"], ids=lambda it: it.name)
def test_commands(tmp_path: Path, document: Path) -> None:
    write(tmp_path / "hub", "me/model/model.safetensors", weights(1))
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    commands = "set -eu\n" + "\n".join(blocks(document, "sh"))
    done = subprocess.run(
        ["bash", "-c", commands], cwd=tmp_path, env={**os.environ, "PATH": path},
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "saved by coding" in done.stdout


def test_python_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "hub", "me/model/model.safetensors", weights(1))
    monkeypatch.chdir(tmp_path)
    examples = blocks(_README, "python")
    assert examples
    for number, example in enumerate(examples, 1):
        exec(compile(example, f"README.md, example {number}", "exec"), {})


def test_both_packages_have_the_same_version() -> None:
    package = metadata.distribution("zstn-hub")
    assert zstn_hub.__version__ == package.version == zstn.__version__
    assert f"zstn=={zstn.__version__}" in (package.requires or [])
