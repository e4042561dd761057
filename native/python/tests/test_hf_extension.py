"""``hf zstn`` as an extension of the command line of huggingface_hub."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest
from checkpoint_folders import files, write_checkpoint
from hf_program import OWNER, PROGRAM, environment, output, refusal, run
from huggingface_hub import HfApi
from stub_hub import StubHub

import zstn

REPO = "me/extended"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home folder with the extension, as ``hf extensions install`` would create it.
    """
    folder = tmp_path / "home" / ".local/share/hf/extensions/hf-zstn"
    folder.mkdir(parents=True)
    manifest = {
        "owner": "zstn",
        "repo": "hf-zstn",
        "repo_id": "zstn/hf-zstn",
        "short_name": "zstn",
        "executable_path": str(PROGRAM),
        "type": "python",
        "installed_at": datetime(2026, 1, 1).isoformat(),
        "description": "Packed checkpoints",
        "commit_sha": None,
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return tmp_path / "home"


@pytest.fixture
def pushed(hub: StubHub, plain: Path) -> HfApi:
    api = HfApi(token=OWNER)
    api.create_repo(REPO)
    output("push", plain, REPO)
    return api


def hf(home: Path, *arguments: object) -> subprocess.CompletedProcess[bytes]:
    env = {
        **environment(),
        "HOME": str(home),
        "HF_HUB_DISABLE_UPDATE_CHECK": "1",
        # No requests may be sent to other hosts.
        "HTTPS_PROXY": "http://127.0.0.1:9",
        "NO_PROXY": "127.0.0.1,localhost",
    }
    command = [Path(sys.executable).with_name("hf"), *map(str, arguments)]
    return subprocess.run(command, env=env, capture_output=True, timeout=300)


@pytest.mark.skipif(os.name != "posix", reason="the folder of extensions follows HOME")
def test_every_verb_through_hf(hub: StubHub, home: Path, tmp_path: Path) -> None:
    plain_folder = write_checkpoint(tmp_path / "plain", 2)
    installed = hf(home, "extensions", "ls")
    assert b"hf zstn" in installed.stdout, installed.stderr
    HfApi(token=OWNER).create_repo(REPO)
    assert hf(home, "zstn", "push", plain_folder, REPO).returncode == 0
    names = hf(home, "zstn", "ls", REPO).stdout.decode()
    assert "config.json" in names
    packed = next(path for path in names.split() if path.endswith(".zstn"))
    model = zstn.open(plain_folder)
    listed = hf(home, "zstn", "ls", f"{REPO}/{packed}").stdout.decode().split()
    name = next(one for one in model if one in listed)
    done = hf(home, "zstn", "cat", f"{REPO}/{packed}", name)
    assert done.stdout == bytes(memoryview(model.read(name)))
    done = hf(home, "zstn", "pull", REPO, "--unpack", "-o", tmp_path / "pulled")
    assert done.stdout.decode().strip() == str(tmp_path / "pulled")
    pulled = files(tmp_path / "pulled")
    del pulled[".gitattributes"]
    assert pulled == files(plain_folder)
    # Exit statuses and arguments pass through.
    assert hf(home, "zstn", "ls", "me/nothing").returncode == 1
    assert hf(home, "zstn", "no-such-verb").returncode == 2
    done = hf(home, "zstn", "--help")
    assert done.returncode == 0
    assert done.stdout.startswith(b"usage: hf zstn")


def test_ls(hub: StubHub, pushed: HfApi, plain: Path, packed: Path) -> None:
    lines = output("ls", REPO).splitlines()
    assert lines[0].split() == ["file", "size", "original", "ratio"]
    listing = json.loads(output("ls", REPO, "--json"))
    assert listing["commit"] == pushed.model_info(REPO).sha
    assert {
        "path": "model.zstn",
        "bytes": packed.stat().st_size,
        "original_bytes": plain.stat().st_size,
    } in listing["files"]
    tensors = json.loads(output("ls", f"{REPO}/model.zstn", "--json"))["tensors"]
    model = zstn.open(packed)
    assert [one["name"] for one in tensors] == model.keys()
    lines = output("ls", f"{REPO}@main/model.zstn").splitlines()
    assert len(lines) == 1 + len(tensors)
    assert any(line.startswith("wte.weight") and "301×40" in line for line in lines)


def test_ls_compares_the_stored_bytes_of_blocks(hub: StubHub) -> None:
    vector = Path(__file__).parents[3] / "tests/vectors/gguf/k-blocks.gguf"
    hub.add(REPO, {"k-blocks.gguf": vector.read_bytes()})
    tensors = json.loads(output("ls", f"{REPO}/k-blocks.gguf", "--json"))["tensors"]
    assert tensors and all(one["original_bytes"] == one["packed_bytes"] for one in tensors)


def test_a_name_cannot_control_a_terminal(hub: StubHub) -> None:
    hub.add(REPO, {"a\x1b[31mb.txt": b"x"})
    assert "\x1b" not in output("ls", REPO)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [("3..5", slice(3, 5)), ("7", slice(7, 8)), ("-1", slice(300, 301)), ("299:", slice(299, None)),
     ("..-299", slice(0, 2)), ("4..4", slice(0, 0)), (None, slice(None))],
)  # fmt: skip
def test_cat(
    pushed: HfApi, tensors: dict[str, np.ndarray], rows: str | None, expected: slice
) -> None:
    chosen = [f"--rows={rows}"] if rows else []
    done = run("cat", f"{REPO}/model.zstn", "wte.weight", *chosen)
    assert done.stdout == tensors["wte.weight"][expected].tobytes()
    assert (done.returncode, done.stderr) == (0, b"")


def test_no_arguments() -> None:
    done = run()
    assert done.returncode == 2 and b"Pack a checkpoint while it is uploaded" in done.stderr


def test_what_cat_refuses(pushed: HfApi) -> None:
    file = f"{REPO}/model.zstn"
    assert "there is no tensor named" in refusal("cat", file, "wte")
    assert "there are no rows 300..302" in refusal("cat", file, "wte.weight", "--rows", "300..302")
    assert "has no rows" in refusal("cat", file, "scale", "--rows", "0")
    assert "names no file" in refusal("cat", REPO, "wte.weight")
    assert run("cat", file, "wte.weight", "--rows", "x").returncode == 2


def test_pull(hub: StubHub, pushed: HfApi, plain: Path, packed: Path, tmp_path: Path) -> None:
    folder = Path(output("pull", REPO))
    assert (folder / "model.zstn").read_bytes() == packed.read_bytes()
    folder = Path(output("pull", REPO, "--unpack"))
    assert (folder / "model.safetensors").read_bytes() == plain.read_bytes()
    output("pull", REPO, "-o", tmp_path / "as-it-is")
    assert (tmp_path / "as-it-is" / "model.zstn").read_bytes() == packed.read_bytes()
    target = tmp_path / "target"
    target.mkdir()
    (target / "mine").touch()
    assert "already exists" in refusal("pull", REPO, "--unpack", "-o", target)
    # The download would replace the user's files.
    assert "already exists" in refusal("pull", REPO, "-o", target)
    assert files(target) == {"mine": b""}


def test_pack(hub: StubHub, plain_folder: Path, tmp_path: Path) -> None:
    zstn.pack(plain_folder, tmp_path / "expected")
    expected = files(tmp_path / "expected")
    assert output("pack", plain_folder, "-q") == f"{plain_folder}-zstn"
    assert files(f"{plain_folder}-zstn") == expected
    hub.add(REPO, plain_folder)
    output("pack", REPO, "-o", tmp_path / "of-repository")
    assert files(tmp_path / "of-repository") == expected
    assert "already exists" in refusal("pack", REPO, "-o", tmp_path / "of-repository")
    shard = next(name for name in files(plain_folder) if name.endswith(".safetensors"))
    output("pack", f"{REPO}/{shard}", "-o", tmp_path / "one.zstn")
    assert (tmp_path / "one.zstn").read_bytes() == expected[shard.replace("safetensors", "zstn")]


def test_who_may_not_read(hub: StubHub, pushed: HfApi, tmp_path: Path) -> None:
    file = f"{REPO}/model.zstn"
    calls = (("ls", file), ("cat", file, "ids"), ("pull", REPO, "-o", tmp_path / "out"))
    pushed.update_repo_settings(REPO, gated="auto")
    for call in calls:
        for token in (None, "hf_reader"):
            assert f"{REPO} is gated" in refusal(*call, token=token)
    pushed.update_repo_settings(REPO, gated=False, private=True)
    for call in calls:
        assert "HF_TOKEN" in refusal(*call, token=None)
    assert "ids" in output("ls", file, token="hf_reader")
    for call in (("ls", "me/nothing"), ("pull", "me/nothing"), ("pack", "me/nothing")):
        assert "there is no repository me/nothing" in refusal(*call)
    assert "no such file" in refusal("ls", f"{REPO}/nothing.zstn")
    assert "is not a repository" in refusal("ls", "nothing")


def test_a_hub_that_does_not_answer(plain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    for call in (("ls", REPO), ("push", plain, REPO)):
        assert "the hub does not answer" in refusal(*call)
