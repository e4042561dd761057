"""Exceptions contain no passwords or signatures of addresses; outputs keep file modes.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

import numpy as np
import pytest

import zstn
import zstn.numpy

SECRETS = ("pass%40word", "pass@word", "0a1b2c3d-signature")
ADDRESS = f"http://user:{SECRETS[0]}@127.0.0.1:9/m.zstn?X-Amz-Signature={SECRETS[2]}"


@pytest.mark.parametrize("call", ["open", "pack", "unpack", "verify"])
def test_exceptions_hide_secrets(call: str, tmp_path: Path) -> None:
    output = [tmp_path / "out"] if call in ("pack", "unpack") else []
    with pytest.raises(Exception) as raised:
        getattr(zstn, call)(ADDRESS, *output)
    shown = f"{raised.value} {raised.value!r} {raised.value.args}"
    assert "127.0.0.1:9/m.zstn" in shown
    assert not any(secret in shown for secret in SECRETS)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.name != "posix", reason="permissions are those of POSIX")
@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600)])
def test_modes(umask: int, mode: int, tmp_path: Path) -> None:
    def mode_of(name: str) -> int:
        return stat.S_IMODE((tmp_path / name).stat().st_mode)

    before = os.umask(umask)
    try:
        plain = tmp_path / "m.safetensors"
        zstn.numpy.save_file({"x": np.arange(9)}, plain)
        assert mode_of("m.safetensors") == mode
        # A private file remains private, and results have the mode of their input.
        plain.chmod(0o600)
        zstn.numpy.save_file({"x": np.arange(9)}, plain)
        assert mode_of("m.safetensors") == 0o600
        for bits in (0o600, 0o640, 0o644):
            plain.chmod(bits)
            packed, restored = tmp_path / f"{bits}.zstn", tmp_path / f"{bits}.safetensors"
            zstn.pack(plain, packed)
            zstn.unpack(packed, restored)
            assert mode_of(packed.name) == mode_of(restored.name) == bits
    finally:
        os.umask(before)
