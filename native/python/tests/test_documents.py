"""Runs the commands in the documents for operators of hubs."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from checkpoint_folders import pack_checkpoint, write_checkpoint
from gateway import program
from stub_hub import StubHub

_DOCUMENTS = Path(__file__).parents[3] / "docs"


def free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


def script(document: str, hub: str) -> str:
    """Returns the commands of a document, adapted to a hub on this machine."""
    text = (_DOCUMENTS / document).read_text(encoding="utf-8")
    commands = "\n".join(re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    commands = commands.replace("https://huggingface.co", hub)
    for port in sorted(set(re.findall(r"--port (\d+)", commands))):
        commands = commands.replace(port, str(free_port()))
    # The script must wait for each server; a person types the next command more slowly
    # than a server starts.
    started = r"\1\nuntil curl -fsS http://127.0.0.1:\2/healthz; do sleep 0.1; done"
    return re.sub(r"^(.*--port (\d+).*&)$", started, commands, flags=re.MULTILINE)


@pytest.mark.skipif(shutil.which("curl") is None, reason="the documents use curl")
@pytest.mark.parametrize("document", ["gateway.md", "hub.md"])
def test_commands(hub: StubHub, tmp_path: Path, document: str) -> None:
    plain = write_checkpoint(tmp_path / "plain")
    hub.add("me/model", pack_checkpoint(plain), private=True)
    work = tmp_path / "work"
    work.mkdir()
    original = (plain / "model.safetensors").read_bytes()
    (work / "model.safetensors").write_bytes(original)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "zstn").symlink_to(program())
    environment = {
        **os.environ,
        "PATH": os.pathsep.join(
            [str(tmp_path / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]]
        ),
        "HF_HOME": str(tmp_path / "home"),
        "TMPDIR": str(tmp_path),
        "HF_TOKEN": "hf_secret",
        "HF_HUB_DISABLE_UPDATE_CHECK": "1",
    }
    commands = "set -eu\ntrap 'kill $(jobs -p) || true' EXIT\n" + script(document, hub.endpoint)
    done = subprocess.run(
        ["bash", "-c", commands], cwd=work, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    if document == "gateway.md":
        assert (work / "model" / "model.safetensors").read_bytes() == original
        assert (work / "first.bin").read_bytes() == original[:8]
    else:
        assert (work / "restored" / "model.safetensors").read_bytes() == original


def test_the_wheel_has_the_licences_of_what_it_contains() -> None:
    wheel = metadata.distribution("zstn")
    assert set(wheel.metadata.get_all("License-File")) == {"LICENSE", "THIRD-PARTY-LICENSES.txt"}
    text = wheel.read_text("licenses/THIRD-PARTY-LICENSES.txt")
    assert text is not None and re.search(r"^pyo3 \d", text, re.MULTILINE)
