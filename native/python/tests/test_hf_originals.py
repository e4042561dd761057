"""``hf zstn push`` removes an original if the file stored on the hub restores it, and
keeps it otherwise."""

from __future__ import annotations

import base64
import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from urllib.request import Request, urlopen

import huggingface_hub
import pytest
from checkpoint_folders import files, write_checkpoint
from hf_program import OWNER, output, run
from huggingface_hub import HfApi
from stub_hub import StubHub

import zstn
import zstn.hf
from zstn.hf import _push

REPO = "me/pushed"

# In this process, huggingface_hub uploads with LFS and causes this warning.
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")


@pytest.fixture
def api(hub: StubHub) -> HfApi:
    api = HfApi(token=OWNER)
    api.create_repo(REPO)
    return api


@pytest.fixture
def push(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str]]:
    """Runs a push in this process, and returns the exit status and the messages."""
    monkeypatch.setenv("HF_TOKEN", OWNER)

    def call(*arguments: object) -> tuple[int, str]:
        status = zstn.hf.main(["push", *map(str, arguments)])
        return status, capsys.readouterr().err

    return call


def listed(api: HfApi, revision: str = "main") -> set[str]:
    return set(api.list_repo_files(REPO, revision=revision)) - {".gitattributes"}


def commit_to_git(hub: StubHub, path: str, content: bytes) -> None:
    """Commits a file as a regular git file, whatever its content."""
    header = {"key": "header", "value": {"summary": "Small"}}
    file = {"path": path, "content": base64.b64encode(content).decode(), "encoding": "base64"}
    lines = [json.dumps(line) for line in (header, {"key": "file", "value": file})]
    url = f"{hub.endpoint}/api/models/{REPO}/commit/main"
    headers = {"Authorization": f"Bearer {OWNER}", "Content-Type": "application/x-ndjson"}
    urlopen(Request(url, "\n".join(lines).encode(), headers)).close()


@pytest.mark.parametrize("seed", range(4))
def test_an_original_is_removed_if_it_is_restored(
    hub: StubHub, api: HfApi, push: Callable[..., tuple[int, str]], tmp_path: Path, seed: int
) -> None:
    """Tests random combinations of stored and listed files."""
    choose = random.Random(seed)
    ours = write_checkpoint(tmp_path / "ours", seed=10) / "model.safetensors"
    theirs = write_checkpoint(tmp_path / "theirs", seed=11) / "model.safetensors"
    for number in range(6):
        pushed = choose.choice(["plain", "packed", "packed of another"])
        original = choose.choice(["same", "same", "other"])
        place = choose.choice(["lfs", "git"])
        arrives = choose.choice(["whole", "whole", "changed", "cut"])
        hub.clear()
        hub.heal()
        api.create_repo(REPO)
        content = (ours if original == "same" else theirs).read_bytes()
        if place == "lfs":
            hub.add(REPO, {"model.safetensors": content})
        else:
            commit_to_git(hub, "model.safetensors", content)
        source = tmp_path / f"{number}"
        source.mkdir()
        if pushed == "plain":
            (source / "model.safetensors").write_bytes(ours.read_bytes())
        else:
            zstn.pack(ours if pushed == "packed" else theirs, source / "model.zstn")
        if arrives != "whole":
            how = {"changed": True} if arrives == "changed" else {"cut_bytes": 100}
            hub.inject(path="/cdn/", method="GET", **how)
        status, said = push(source, REPO)
        hub.heal()
        case = (pushed, original, place, arrives, said)
        restores = (pushed == "packed of another") == (original == "other")
        expected = restores and arrives == "whole"
        found = listed(api)
        assert ("model.safetensors" not in found) == expected, case
        assert "model.zstn" in found, case
        assert status == (0 if expected else 1), case
        assert ("error: model.safetensors: kept, " in said) == (not expected), case
        if not expected:
            kept = huggingface_hub.hf_hub_download(
                REPO, "model.safetensors", cache_dir=tmp_path / f"cache{number}"
            )
            assert Path(kept).read_bytes() == content


def test_a_damaged_packed_file_is_not_pushed(
    hub: StubHub, api: HfApi, push: Callable[..., tuple[int, str]], plain: Path, packed: Path
) -> None:
    hub.add(REPO, {"model.safetensors": plain.read_bytes()})
    data = bytearray(packed.read_bytes())
    data[len(data) // 2] ^= 1
    packed.write_bytes(data)
    status, said = push(packed, REPO)
    assert status == 1 and "model.zstn" in said and "--keep-original" in said
    assert listed(api) == {"model.safetensors"}


def test_the_files_of_a_checkpoint_go_together(
    hub: StubHub, api: HfApi, push: Callable[..., tuple[int, str]], tmp_path: Path
) -> None:
    folder = write_checkpoint(tmp_path / "plain", 3)
    others = {"config.json", "sub/notes.txt"}
    before = files(folder)
    # A different shard, and an index.
    other = write_checkpoint(tmp_path / "other", 3, seed=1)
    second = "model-00002-of-00003.safetensors"
    index = "model.safetensors.index.json"
    changes = {second: (other / second).read_bytes(), index: (folder / index).read_bytes() + b"\n"}
    for name, content in changes.items():
        hub.add(REPO, {**before, name: content})
        status, said = push(folder, REPO)
        assert status == 1 and f"error: {name}: kept, " in said
        assert "of the same checkpoint is kept" in said
        assert before.keys() <= listed(api)
    hub.add(REPO, before)
    status, said = push(folder, REPO)
    assert status == 0, said
    packed = {name.replace(".safetensors", ".zstn") for name in before}
    assert listed(api) == packed and others < packed


def test_a_push_that_ends_before_the_proof_is_continued(
    hub: StubHub, api: HfApi, push: Callable[..., tuple[int, str]], plain: Path
) -> None:
    hub.add(REPO, {"model.safetensors": plain.read_bytes()})
    hub.inject(path="/commit/", skip=1, status=500)
    status, said = push(plain, REPO)
    assert status == 1 and "500" in said
    assert listed(api) == {"model.safetensors", "model.zstn"}
    hub.heal()
    status, said = push(plain, REPO)
    assert status == 0, said
    assert listed(api) == {"model.zstn"}


@pytest.mark.parametrize("is_changed", [False, True])
def test_a_commit_between_proof_and_removal(
    hub: StubHub, api: HfApi, push: Callable[..., tuple[int, str]], plain: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, is_changed: bool,
) -> None:  # fmt: skip
    hub.add(REPO, {"model.safetensors": plain.read_bytes()})
    find, calls = _push.find, []

    def then_another_commit(*arguments: object) -> object:
        found = find(*arguments)  # type: ignore[arg-type]
        if not calls:
            name = "model.safetensors" if is_changed else "README.md"
            commit_to_git(hub, name, b"another")
        calls.append(found)
        return found

    monkeypatch.setattr(_push, "find", then_another_commit)
    status, said = push(plain, REPO)
    assert len(calls) == 2
    if is_changed:
        assert status == 1 and "error: model.safetensors: kept, " in said
        assert listed(api) == {"model.safetensors", "model.zstn"}
    else:
        assert status == 0, said
        assert listed(api) == {"README.md", "model.zstn"}


def test_a_pull_request_removes_originals_there(
    hub: StubHub, api: HfApi, push: Callable[..., tuple[int, str]], plain: Path
) -> None:
    hub.add(REPO, {"model.safetensors": plain.read_bytes()})
    status, said = push(plain, REPO, "--create-pr")
    assert status == 0, said
    assert listed(api) == {"model.safetensors"}
    assert listed(api, "refs/pr/1") == {"model.zstn"}


def test_a_delta_replaces_nothing(
    hub: StubHub, api: HfApi, push: Callable[..., tuple[int, str]], tmp_path: Path, packed: Path
) -> None:
    base = write_checkpoint(tmp_path / "base", seed=2) / "model.safetensors"
    tuned = write_checkpoint(tmp_path / "tuned", seed=3) / "model.safetensors"
    folder = tmp_path / "pushed"
    folder.mkdir()
    zstn.pack(tuned, folder / "tuned.z4dm", base=base)
    (folder / "model.zstn").write_bytes(packed.read_bytes())
    hub.add(REPO, {"tuned.safetensors": tuned.read_bytes()})
    status, said = push(folder, REPO)
    assert status == 0 and "tuned.safetensors: kept, tuned.z4dm is a delta" in said
    assert "tuned.safetensors" in listed(api)


@pytest.mark.skipif(os.name != "posix", reason="links and pipes")
def test_secrets_and_links_stay_here(
    hub: StubHub, api: HfApi, plain: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "passwd").write_text("secret")
    plain.rename(outside / "weights.safetensors")
    folder = write_checkpoint(tmp_path / "folder", seed=4)
    key = "-----BEGIN OPENSSH PRIVATE KEY-----\nsecret\n"
    left_out = {
        ".env": "secret", ".env.local": "secret", "sub/.netrc": "secret", "id_rsa": "secret",
        "server.pem": "secret", "notes.md": key, ".aws/credentials": "secret",
        "sub/credentials.json": "secret", ".git-credentials": "secret",
    }  # fmt: skip
    for name, text in left_out.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    (folder / ".env.example").write_text("TOKEN=")
    (folder / "inside.json").symlink_to("config.json")
    (folder / "hidden.txt").symlink_to(".env")
    (folder / "passwd.txt").symlink_to(outside / "passwd")
    (folder / "l.safetensors").symlink_to(outside / "weights.safetensors")
    (folder / "up.txt").symlink_to("../outside/passwd")
    (folder / "nowhere.txt").symlink_to("nothing")
    (folder / "etc").symlink_to(outside)
    (folder / "loop").symlink_to(".")
    os.mkfifo(folder / "pipe.safetensors")
    done = run("push", folder, REPO)
    assert done.returncode == 0, done.stderr
    found = listed(api)
    shared = {"config.json", "sub/notes.txt", "inside.json", ".env.example", "model.zstn"}
    assert found == shared
    said = done.stderr.decode()
    named = {*left_out, "hidden.txt", "passwd.txt", "l.safetensors", "up.txt", "nowhere.txt",
             "etc", "loop", "pipe.safetensors"} - {".aws/credentials"} | {".aws"}  # fmt: skip
    for name in named:
        assert f"{name}: left out, " in said, name


def test_a_snapshot_of_the_cache_is_pushed_whole(
    hub: StubHub, api: HfApi, tmp_path: Path, cache: Path
) -> None:
    # The stub hub finds objects of other tests, so this content must be different.
    plain = write_checkpoint(tmp_path / "plain", seed=1)
    hub.add("me/source", plain)
    snapshot = huggingface_hub.snapshot_download("me/source", cache_dir=tmp_path / "hf")
    assert Path(snapshot, "model.safetensors").is_symlink()
    output("push", snapshot, REPO)
    assert listed(api) == {"model.zstn", "config.json", "sub/notes.txt"}
