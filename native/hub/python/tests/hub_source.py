"""Sources for the tests of ``python -m zstn_hub``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np


def weights(seed: int, elements: int = 40_000) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    values = (random.standard_normal((elements // 100, 100)) * 0.02).astype(ml_dtypes.bfloat16)
    return {"a.weight": values, "b.weight": values[: elements // 400].copy() + 1}


def tuned(base: dict[str, np.ndarray], seed: int) -> dict[str, np.ndarray]:
    """Returns a fine-tune: the lowest bit of 2 % of the elements is flipped."""
    random = np.random.default_rng(seed)
    result = {}
    for name, values in base.items():
        words = values.view(np.uint16).copy()
        words[random.random(words.shape) < 0.02] ^= 1
        result[name] = words.view(ml_dtypes.bfloat16)
    return result


def write(folder: Path, name: str, tensors: dict[str, np.ndarray]) -> Path:
    """Writes a file OWNER/NAME/FILE of a source."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    header, start = {}, 0
    for key, values in tensors.items():
        end = start + values.nbytes
        header[key] = {"dtype": "BF16", "shape": values.shape, "data_offsets": [start, end]}
        start = end
    text = json.dumps(header).encode()
    body = b"".join(values.tobytes() for values in tensors.values())
    path.write_bytes(len(text).to_bytes(8, "little") + text + body)
    return path


def command(*arguments: str | Path, **variables: str) -> list[str]:
    return [sys.executable, "-m", "zstn_hub", *map(str, arguments)]


def hub(
    *arguments: str | Path, status: int = 0, environment: dict[str, str] | None = None
) -> tuple[str, str]:
    """Runs a command, and returns its standard output and its messages."""
    done = subprocess.run(
        command(*arguments),
        capture_output=True,
        text=True,
        env={**os.environ, **(environment or {})},
        timeout=300,
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout, done.stderr


def events(output: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Returns the outcomes of rows, and the summary."""
    lines = [json.loads(line) for line in output.splitlines()]
    return lines[:-1], lines[-1]


def run(plan: Path, source: Path | str, store: Path | str, *more: str, status: int = 0):
    return events(hub("run", plan, "--from", source, "--to", store, "--json", *more, status=status)[0])


def make_plan(source: Path | str, plan: Path, *more: str | Path) -> list[dict]:
    hub("plan", source, "-o", plan, *more)
    return [json.loads(line) for line in plan.read_text().splitlines()]


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((folder / "packed").iterdir())}
