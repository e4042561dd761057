"""Runs the examples of docs/python.md, docs/training.md and README.md that need other
libraries, each in its own process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from stub_hub import StubHub
from transformers import BertConfig, BertModel

import zstn
import zstn.numpy

PACKAGE = Path(__file__).parents[2]
DOCS = PACKAGE.parents[1] / "docs"
PAGES = {DOCS / "python.md": "python", DOCS / "training.md": "python", PACKAGE / "README.md": "py"}


def examples() -> list[str]:
    found = []
    for page, language in PAGES.items():
        text = page.read_text("utf-8")
        found += re.findall(rf"^```{language}\n(.*?)^```$", text, re.M | re.S)
    return found


def test_there_are_examples() -> None:
    assert len(examples()) >= 5


@pytest.mark.parametrize("example", examples(), ids=range(len(examples())))
def test_example(hub: StubHub, tmp_path: Path, example: str) -> None:
    config = BertConfig(
        hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64
    )
    BertModel(config).save_pretrained(tmp_path / "plain")
    zstn.pack(tmp_path / "plain", tmp_path / "packed")
    zstn.numpy.save_file({"wte.weight": np.ones((4, 8), "f4")}, tmp_path / "model.zstn")
    hub.add("OWNER/NAME", tmp_path / "packed")
    check = "\nif 'model' in globals(): assert sum(p.numel() for p in model.parameters())\n"
    done = subprocess.run(
        [sys.executable, "-c", example + check],
        env={**os.environ, "HF_HOME": str(tmp_path / "hf")}, cwd=tmp_path,
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert ("OWNER/NAME" in example) == bool(hub.fetched("OWNER/NAME"))
