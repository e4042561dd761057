"""Unpatched transformers and diffusers with `zstn gateway`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from gateway import Gateway
from stub_hub import StubHub
from with_torch.test_transformers import make_model, pack, write_model

_LOAD = """
import sys, safetensors.torch
from transformers import AutoModelForCausalLM
state = AutoModelForCausalLM.from_pretrained("me/tiny").state_dict()
assert not any(name.split(".")[0] == "zstn" for name in sys.modules)
safetensors.torch.save_file({name: value.clone() for name, value in state.items()}, sys.argv[1])
"""


@pytest.fixture
def gateway(hub: StubHub) -> Iterator[Gateway]:
    server = Gateway(hub.endpoint)
    yield server
    server.close()


@pytest.mark.parametrize("shards", [False, True], ids=["one file", "shards"])
def test_from_pretrained(
    hub: StubHub, gateway: Gateway, tmp_path: Path, shards: bool
) -> None:
    from safetensors.torch import load_file
    from with_torch.conftest import assert_same_bits

    hub.add("me/tiny", pack(write_model(tmp_path / "plain", shards)))
    environment = {
        **os.environ,
        "HF_ENDPOINT": gateway.endpoint,
        "HF_HOME": str(tmp_path / "home"),
    }
    out = tmp_path / "state.safetensors"
    subprocess.run([sys.executable, "-c", _LOAD, out], env=environment, check=True)
    assert_same_bits(load_file(out), dict(make_model().state_dict()))
