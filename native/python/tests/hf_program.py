"""Runs ``hf-zstn`` as a program, as users do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

#: The program is in the same folder as the interpreter of the wheel's environment.
PROGRAM = Path(sys.executable).with_name("hf-zstn")

OWNER = "hf_secret"


def environment(transfer: str = "xet", token: str | None = OWNER) -> dict[str, str]:
    """Returns environment variables for the program. `transfer` is ``"xet"`` or
    ``"lfs"``."""
    disable = "1" if transfer == "lfs" else "0"
    found = {**os.environ, "HF_HUB_DISABLE_XET": disable}
    return {**found, "HF_TOKEN": token} if token else found


def start(*arguments: object, **options: str | None) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [PROGRAM, *map(str, arguments)], env=environment(**options),  # type: ignore[arg-type]
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def run(*arguments: object, **options: str | None) -> subprocess.CompletedProcess[bytes]:
    with start(*arguments, **options) as process:
        out, err = process.communicate(timeout=300)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def output(*arguments: object, **options: str | None) -> str:
    """Returns the standard output without its last newline."""
    done = run(*arguments, **options)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode().rstrip("\n")


def refusal(*arguments: object, **options: str | None) -> str:
    """Returns the error message of a command that fails."""
    done = run(*arguments, **options)
    assert done.returncode == 1, done.stderr.decode()
    assert not done.stdout
    prefix, _, sentence = done.stderr.decode().rstrip("\n").partition("error: ")
    assert prefix == ""
    assert "\n" not in sentence
    return sentence
