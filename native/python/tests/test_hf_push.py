"""``hf zstn push``, which packs files while they are uploaded."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import huggingface_hub
import numpy as np
import pytest
import safetensors.numpy
from checkpoint_folders import files, write_checkpoint, write_other_models
from hf_program import OWNER, output, refusal, run, start
from huggingface_hub import HfApi
from stub_hub import StubHub

import zstn
import zstn.hf
from zstn.hub import snapshot_download

REPO = "me/pushed"


@pytest.fixture
def api(hub: StubHub) -> HfApi:
    api = HfApi(token=OWNER)
    api.create_repo(REPO)
    return api


@pytest.fixture(params=["lfs", "xet"])
def transfer(request: pytest.FixtureRequest) -> str:
    return request.param


def remote(hub: StubHub, tmp_path: Path, **options: str) -> dict[str, bytes]:
    """Returns the files of the repository, without ``.gitattributes``."""
    folder = huggingface_hub.snapshot_download(REPO, cache_dir=tmp_path / "fresh", **options)
    found = files(folder)
    found.pop(".gitattributes", None)
    return found


def uploads(hub: StubHub) -> list[str]:
    return [one["path"] for one in hub.log if one["method"] == "PUT" and one["status"] == 200]


def wait_until(condition: Callable[[], bool]) -> None:
    # A test that passes waits for a shorter time.
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_folder_becomes_one_commit(
    hub: StubHub, api: HfApi, transfer: str, plain_folder: Path, tmp_path: Path, cache: Path
) -> None:
    before = api.model_info(REPO).sha
    url = output("push", plain_folder, REPO, transfer=transfer)
    info = api.model_info(REPO)
    assert url == f"{hub.endpoint}/{REPO}/commit/{info.sha}"
    assert [one.commit_id for one in api.list_repo_commits(REPO)] == [info.sha, before]
    zstn.pack(plain_folder, tmp_path / "packed")
    assert remote(hub, tmp_path) == files(tmp_path / "packed")
    plain = files(snapshot_download(REPO))
    attributes = plain.pop(".gitattributes").decode().splitlines()
    assert plain == files(plain_folder)
    assert "*.zstn filter=lfs diff=lfs merge=lfs -text" in attributes
    assert bool(uploads(hub)) == (transfer == "lfs")
    # Nothing has changed, so the push makes no commit and uploads nothing.
    hub.clear_log()
    done = run("push", plain_folder, REPO, transfer=transfer)
    assert (done.returncode, done.stdout) == (0, b"")
    assert b"nothing was committed" in done.stderr
    assert api.model_info(REPO).sha == info.sha
    assert not uploads(hub)
    if transfer == "xet":
        sent = [line.split()[-2:] for line in done.stderr.decode().splitlines() if ".zstn" in line]
        assert sent
        assert all(bytes_sent == ["0", "B"] for bytes_sent in sent)


def test_models_of_other_formats(
    hub: StubHub, api: HfApi, transfer: str, plain_folder: Path, tmp_path: Path, cache: Path
) -> None:
    hub.add(REPO, write_other_models(plain_folder))
    output("push", plain_folder, REPO, transfer=transfer)
    zstn.pack(plain_folder, tmp_path / "packed")
    # The original has been removed, since the packed file restores it.
    assert remote(hub, tmp_path) == files(tmp_path / "packed")
    output("pack", REPO, "-o", tmp_path / "again")
    output("pull", REPO, "--unpack", "-o", tmp_path / "pulled")
    for folder in ("pulled", "again"):
        (tmp_path / folder / ".gitattributes").unlink()
    assert files(tmp_path / "pulled") == files(plain_folder)
    assert files(tmp_path / "again") == files(tmp_path / "packed")

    hub.add("me/plain", plain_folder)
    output("pack", "me/plain", "-o", tmp_path / "of hub")
    assert files(tmp_path / "of hub") == files(tmp_path / "packed")


def test_a_file(hub: StubHub, api: HfApi, plain: Path, packed: Path, tmp_path: Path) -> None:
    output("push", plain, REPO, "--effort", "max", "-q", "-m", "By hand")
    zstn.pack(plain, tmp_path / "max.zstn", effort="max")
    assert remote(hub, tmp_path) == {"model.zstn": (tmp_path / "max.zstn").read_bytes()}
    assert api.list_repo_commits(REPO)[0].title == "By hand"
    # The file is already packed.
    output("push", packed, REPO, "--memory", "1G")
    assert remote(hub, tmp_path) == {"model.zstn": packed.read_bytes()}


def test_the_original(hub: StubHub, api: HfApi, plain: Path, packed: Path, tmp_path: Path) -> None:
    original = {"model.safetensors": plain.read_bytes()}
    both = {**original, "model.zstn": packed.read_bytes()}
    hub.add(REPO, original)
    output("push", plain, REPO, "--keep-original")
    assert remote(hub, tmp_path) == both
    output("push", plain, REPO)
    assert remote(hub, tmp_path) == {"model.zstn": packed.read_bytes()}


def test_a_file_that_is_left_out_replaces_nothing(
    hub: StubHub, api: HfApi, plain: Path, tmp_path: Path
) -> None:
    files = {"model.safetensors": plain.read_bytes(), ".gitignore": b"*.zstn\n"}
    hub.add(REPO, files)
    done = run("push", plain, REPO)
    assert done.returncode == 0, done.stderr
    assert b"left out" in done.stderr
    assert remote(hub, tmp_path) == files


def test_a_shard_of_a_checkpoint_that_stays_is_kept(
    hub: StubHub, api: HfApi, tmp_path: Path
) -> None:
    folder = write_checkpoint(tmp_path / "shards", 3)
    hub.add(REPO, folder)
    done = run("push", folder / "model-00001-of-00003.safetensors", REPO)
    assert done.returncode == 0, done.stderr
    assert b"its index is not part of this push" in done.stderr
    found = remote(hub, tmp_path)
    assert "model-00001-of-00003.zstn" in found
    assert files(folder).items() <= found.items()


def test_what_only_has_the_name_of_a_packed_file_replaces_nothing(
    hub: StubHub, api: HfApi, plain: Path, tmp_path: Path
) -> None:
    original = {"model.safetensors": plain.read_bytes()}
    hub.add(REPO, original)
    pointer = tmp_path / "model.zstn"
    pointer.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
    sentence = refusal("push", pointer, REPO)
    assert "model.zstn" in sentence and "--keep-original" in sentence
    assert remote(hub, tmp_path) == original


def test_a_closed_pipe_does_not_end_a_push(hub: StubHub, api: HfApi, plain: Path) -> None:
    hub.add(REPO, {"model.safetensors": plain.read_bytes()})
    before = api.model_info(REPO).sha
    with start("push", plain, REPO) as process:
        assert process.stderr
        process.stderr.close()
        process.wait(120)
    assert process.returncode == 0
    assert api.model_info(REPO).sha != before


def test_a_pull_request(hub: StubHub, api: HfApi, transfer: str, plain: Path) -> None:
    url = output("push", plain, REPO, "--create-pr", transfer=transfer)
    assert url == f"{hub.endpoint}/{REPO}/discussions/1"
    assert api.list_repo_files(REPO) == [".gitattributes"]
    assert "model.zstn" in api.list_repo_files(REPO, revision="refs/pr/1")


def test_branches_and_datasets(hub: StubHub, api: HfApi, plain: Path) -> None:
    api.create_branch(REPO, branch="a/b")
    output("push", plain, REPO, "--revision", "a/b")
    assert "model.zstn" in api.list_repo_files(REPO, revision="a/b")
    assert "model.zstn" not in api.list_repo_files(REPO)
    api.create_repo("me/data", repo_type="dataset")
    output("push", plain, "datasets/me/data")
    assert "model.zstn" in api.list_repo_files("me/data", repo_type="dataset")


def test_a_repository_that_moves(
    hub: StubHub, api: HfApi, plain: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    info = HfApi.repo_info

    def then_another_commit(*args: object, **options: object) -> object:
        found = info(*args, **options)  # type: ignore[arg-type]
        hub.add(REPO, {"config.json": b"{}"})
        return found

    monkeypatch.setattr(HfApi, "repo_info", then_another_commit)
    monkeypatch.setenv("HF_TOKEN", OWNER)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_DISABLE_XET", False)
    assert zstn.hf.main(["push", str(plain), REPO]) == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith(f"error: {REPO} has had another commit since this began")
    monkeypatch.undo()
    assert api.list_repo_files(REPO) == ["config.json"]


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL")
def test_killed_between_files(
    hub: StubHub, api: HfApi, tmp_path: Path, transfer: str
) -> None:
    # The content is unique to this test, so that the store does not have it from
    # another.
    folder = write_checkpoint(tmp_path / "plain", 2, seed=41 + (transfer == "lfs"))
    if transfer == "lfs":
        hub.inject(path="/cdn/", method="PUT", skip=1, wait_ms=600_000)
    else:
        hub.inject(path="/commit/", wait_ms=600_000)
    store = Path(os.environ["HF_HOME"]) / "xet" / "xet" / "xorbs" / "shards"
    known = len(list(store.glob("*.mdb")))

    def is_reached() -> bool:
        if transfer == "lfs":
            return len(uploads(hub)) == 1
        return len(list(store.glob("*.mdb"))) == known + 2

    with start("push", folder, REPO, transfer=transfer) as process:
        wait_until(is_reached)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    hub.heal()
    assert api.list_repo_files(REPO) == [".gitattributes"]
    done = run("push", folder, REPO, transfer=transfer)
    assert done.returncode == 0, done.stderr.decode()
    if transfer == "lfs":
        assert len(uploads(hub)) == len(set(uploads(hub))) == 2
    else:
        lines = [line for line in done.stderr.decode().splitlines() if ".zstn" in line]
        assert [line.split()[-2:] for line in lines] == [["0", "B"]] * 2
    zstn.pack(folder, tmp_path / "packed")
    assert remote(hub, tmp_path) == files(tmp_path / "packed")


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL")
def test_killed_within_a_file(hub: StubHub, api: HfApi, tmp_path: Path) -> None:
    """With Xet, bytes that were sent before the process was killed are not sent again:
    here, at least one block of 64 MB."""
    random, source = np.random.default_rng(43), tmp_path / "model.safetensors"
    tensors = {f"t{number}": random.bytes(20_000_000) for number in range(8)}
    arrays = {name: np.frombuffer(data, np.uint8) for name, data in tensors.items()}
    safetensors.numpy.save_file(arrays, source)
    # On a machine fast enough to complete the file, the push waits here.
    hub.inject(path="/commit/", wait_ms=600_000)
    notes = Path(os.environ["HF_HOME"]) / "xet" / "xet" / "shard-session" / "xorb_metadata"
    before = set(notes.glob("*.mdb"))
    with start("push", source, REPO, "--effort", "fast") as process:
        wait_until(lambda: bool(set(notes.glob("*.mdb")) - before))
        process.send_signal(signal.SIGKILL)
        process.communicate()
    hub.heal()
    done = run("push", source, REPO, "--effort", "fast")
    assert done.returncode == 0, done.stderr.decode()
    line = next(line for line in done.stderr.decode().splitlines() if ".zstn" in line)
    number, unit = line.split()[-2:]
    sent = float(number) * {"B": 1, "kB": 1e3, "MB": 1e6}[unit]
    assert sent < 110e6
    zstn.pack(source, tmp_path / "model.zstn", effort="fast")
    assert remote(hub, tmp_path) == {"model.zstn": (tmp_path / "model.zstn").read_bytes()}


def test_who_may_not_push(hub: StubHub, api: HfApi, plain: Path) -> None:
    for repository, token, expected in (
        (REPO, None, "log in with `hf auth login`, or set HF_TOKEN"),
        (REPO, "hf_reader", "your token may not do this"),
        (REPO, "hf_wrong", "the hub does not accept your token"),
        ("me/nothing", OWNER, "`hf repos create me/nothing` makes it"),
        ("datasets/me/nothing", OWNER, "`hf repos create me/nothing --repo-type dataset`"),
        ("me/nothing", None, "or it is private: log in with `hf auth login`"),
    ):
        assert expected in refusal("push", plain, repository, token=token)
    assert not uploads(hub)
    assert "no such revision" in refusal("push", plain, REPO, "--revision", "no")


def test_what_is_not_pushed(hub: StubHub, api: HfApi, tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "plain", 2)
    index = folder / "model.safetensors.index.json"
    text = json.loads(index.read_text())
    text["weight_map"]["more"] = "model-3.safetensors"
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("a")
    both = write_checkpoint(tmp_path / "both")
    zstn.pack(both / "model.safetensors", both / "model.zstn")
    for source, expected in (
        (tmp_path / "nothing", "no such file or folder"),
        (tmp_path / "notes", "has no model files, plain or packed"),
        (both, "model.safetensors and model.zstn would both be called model.zstn"),
    ):
        assert expected in refusal("push", source, REPO)
    index.write_text(json.dumps(text))
    assert "names model-3.safetensors, which is not there" in refusal("push", folder, REPO)
    index.write_text('{"weight_map": []}')
    assert "is not the index of a checkpoint" in refusal("push", folder, REPO)
    broken = tmp_path / "broken.safetensors"
    broken.write_bytes(b"no")
    assert "broken.safetensors" in refusal("push", broken, REPO)
    assert api.list_repo_files(REPO) == [".gitattributes"]
    assert hashlib.sha256(b"no").hexdigest() not in str(hub.log)
