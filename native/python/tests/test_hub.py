"""Folders of repositories in which packed files appear restored, or packed under
the names of safetensors. The hub is a stub, huggingface_hub is real."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import huggingface_hub
import numpy as np
import pytest
import safetensors.numpy
import z4ai.safetensors
from conftest import assert_same, make_tensors
from huggingface_hub.errors import (
    IncompleteSnapshotError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from stub_hub import StubHub

import zstn
from zstn.hub import cache_folder, shadow_folder, snapshot_download


def write_checkpoint(folder: Path, shards: int = 1, seed: int = 0) -> Path:
    """Writes a plain checkpoint with other files next to it."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text('{"hidden_size": 40}')
    (folder / "sub").mkdir()
    (folder / "sub" / "notes.txt").write_text("hello")
    names = sorted(make_tensors(seed))
    tensors = make_tensors(seed)
    if shards == 1:
        safetensors.numpy.save_file(tensors, folder / "model.safetensors", {"format": "pt"})
        return folder
    weight_map = {}
    for number in range(shards):
        file = f"model-{number + 1:05}-of-{shards:05}.safetensors"
        part = {name: tensors[name] for name in names[number::shards]}
        safetensors.numpy.save_file(part, folder / file, {"format": "pt"})
        weight_map.update(dict.fromkeys(part, file))
    index = {"metadata": {"total_size": 1}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")
    return folder


def pack_checkpoint(plain: Path, effort: str = "balanced") -> Path:
    packed = plain.with_name(f"{plain.name}-{effort}-packed")
    zstn.pack(plain, packed, effort=effort)
    return packed


def files(folder: str | Path) -> dict[str, bytes]:
    root = Path(folder)
    paths = (path for path in root.rglob("*") if path.is_file())
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in paths}


@pytest.fixture(params=[1, 3], ids=["one file", "shards"])
def plain_folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return write_checkpoint(tmp_path / "plain", request.param)


class TestRestored:
    def test_a_repository_appears_as_it_was_before_packing(
        self, hub: StubHub, cache: Path, plain_folder: Path
    ) -> None:
        hub.add("org/restored", pack_checkpoint(plain_folder))
        folder = snapshot_download("org/restored")
        assert files(folder) == files(plain_folder)
        assert Path(folder).is_relative_to(cache)

    def test_the_cache_of_the_hub_keeps_what_the_hub_has(
        self, hub: StubHub, cache: Path, plain_folder: Path
    ) -> None:
        packed = pack_checkpoint(plain_folder)
        hub.add("org/kept", packed)
        snapshot_download("org/kept")
        shadow_folder("org/kept")
        there = huggingface_hub.snapshot_download("org/kept", local_files_only=True)
        assert files(there) == files(packed)

    def test_files_that_are_not_packed_are_links(
        self, hub: StubHub, cache: Path, tmp_path: Path
    ) -> None:
        hub.add("org/links", pack_checkpoint(write_checkpoint(tmp_path / "plain")))
        folder = Path(snapshot_download("org/links"))
        there = huggingface_hub.snapshot_download("org/links", local_files_only=True)
        assert os.path.samefile(folder / "sub/notes.txt", Path(there, "sub/notes.txt"))

    def test_a_local_folder_appears_as_it_was_before_packing(
        self, cache: Path, plain_folder: Path
    ) -> None:
        folder = snapshot_download(pack_checkpoint(plain_folder))
        assert files(folder) == files(plain_folder)

    def test_a_file_that_was_kept_whole_is_restored(self, cache: Path, tmp_path: Path) -> None:
        whole = tmp_path / "whole"
        whole.mkdir()
        header = b'{"a":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}}'
        original = len(header).to_bytes(8, "little") + header + b"123456"
        (tmp_path / "model.safetensors").write_bytes(original)
        report = zstn.pack(tmp_path / "model.safetensors", whole / "model.zstn")
        assert report.files[0].storage == "single_frame"
        assert files(snapshot_download(whole)) == {"model.safetensors": original}

    def test_repositories_share_the_restored_file(
        self, hub: StubHub, cache: Path, tmp_path: Path
    ) -> None:
        plain = write_checkpoint(tmp_path / "plain")
        for effort in ("fast", "max"):
            hub.add(f"org/{effort}", pack_checkpoint(plain, effort))
        first = Path(snapshot_download("org/fast"), "model.safetensors")
        inode = first.stat().st_ino
        second = Path(snapshot_download("org/max"), "model.safetensors")
        assert first.resolve() == second.resolve()
        # Found by its digest rather than restored again.
        assert second.stat().st_ino == inode
        assert len(list(cache.glob("*/model.safetensors"))) == 1

    def test_a_file_without_digests_is_restored_once(self, cache: Path, tmp_path: Path) -> None:
        plain = write_checkpoint(tmp_path / "plain") / "model.safetensors"
        packed = tmp_path / "packed"
        packed.mkdir()
        z4ai.safetensors.compress_file(str(plain), str(packed / "model.zstn"))
        first = Path(snapshot_download(packed), "model.safetensors")
        assert first.read_bytes() == plain.read_bytes()
        inode = first.stat().st_ino
        assert Path(snapshot_download(packed), "model.safetensors").stat().st_ino == inode
        # Another file in its place is noticed.
        other = write_checkpoint(tmp_path / "other", seed=1) / "model.safetensors"
        z4ai.safetensors.compress_file(str(other), str(packed / "model.zstn"))
        again = Path(snapshot_download(packed), "model.safetensors")
        assert again.read_bytes() == other.read_bytes()

    def test_a_damaged_file_is_refused_and_leaves_nothing(
        self, cache: Path, tmp_path: Path
    ) -> None:
        packed = pack_checkpoint(write_checkpoint(tmp_path / "plain"))
        data = bytearray((packed / "model.zstn").read_bytes())
        data[len(data) // 2] ^= 1
        (packed / "model.zstn").write_bytes(data)
        with pytest.raises(zstn.ZstnError):
            snapshot_download(packed)
        assert not list(cache.rglob("model.safetensors"))
        assert not list(cache.glob(".incomplete/*"))

    def test_what_a_killed_process_left_is_removed_a_day_later(
        self, cache: Path, tmp_path: Path
    ) -> None:
        old, new = cache / ".incomplete" / "old", cache / ".incomplete" / "new"
        for folder in (old, new):
            folder.mkdir(parents=True)
            (folder / "model.safetensors").write_bytes(b"half")
        os.utime(old, (0, 0))
        snapshot_download(pack_checkpoint(write_checkpoint(tmp_path / "plain")))
        assert not old.exists()
        assert new.exists()

    def test_several_processes_at_once(self, cache: Path, tmp_path: Path) -> None:
        plain = write_checkpoint(tmp_path / "plain", 3)
        packed = pack_checkpoint(plain)
        program = "import sys, zstn.hub; print(zstn.hub.snapshot_download(sys.argv[1]))"
        running = [
            subprocess.Popen(
                [sys.executable, "-c", program, packed], stdout=subprocess.PIPE, text=True
            )
            for _ in range(5)
        ]
        folders = {process.communicate()[0].strip() for process in running}
        assert [process.returncode for process in running] == [0] * 5
        (folder,) = folders
        assert files(folder) == files(plain)
        assert not list(cache.glob(".incomplete/*"))

    def test_progress_is_reported(self, cache: Path, tmp_path: Path) -> None:
        packed = pack_checkpoint(write_checkpoint(tmp_path / "plain"))
        seen: list[tuple[int, int]] = []
        snapshot_download(packed, progress=lambda done, total: seen.append((done, total)))
        assert seen[-1][0] == seen[-1][1] > 0


class TestHub:
    def test_without_packed_files_it_is_the_hubs_own_snapshot(
        self, hub: StubHub, cache: Path, tmp_path: Path
    ) -> None:
        hub.add("org/plain", write_checkpoint(tmp_path / "plain"))
        expected = huggingface_hub.snapshot_download("org/plain")
        assert snapshot_download("org/plain") == expected
        assert not cache.exists()

    def test_what_a_packed_file_restores_is_not_downloaded(
        self, hub: StubHub, cache: Path, plain_folder: Path
    ) -> None:
        packed = files(pack_checkpoint(plain_folder))
        hub.add("org/both", {**files(plain_folder), **packed})
        folder = snapshot_download("org/both")
        assert files(folder) == files(plain_folder)
        assert hub.fetched("org/both") == set(packed)

    @pytest.mark.parametrize(
        ("patterns", "expected"),
        [
            ({"allow_patterns": "*.safetensors"}, {"model.safetensors"}),
            ({"allow_patterns": ["*.zstn", "config.json"]}, {"model.safetensors", "config.json"}),
            ({"ignore_patterns": ["sub/*", "*.safetensors"]}, {"config.json"}),
        ],
    )
    def test_patterns_for_plain_files_mean_packed_ones(
        self, hub: StubHub, cache: Path, tmp_path: Path, patterns: dict, expected: set[str]
    ) -> None:
        packed = pack_checkpoint(write_checkpoint(tmp_path / "plain"))
        name = f"org/{tmp_path.name}"
        hub.add(name, packed)
        assert set(files(snapshot_download(name, **patterns))) == expected
        assert set(files(snapshot_download(packed, **patterns))) == expected

    def test_the_token_goes_to_the_hub_and_nowhere_else(
        self, hub: StubHub, cache: Path, tmp_path: Path
    ) -> None:
        plain = write_checkpoint(tmp_path / "plain")
        hub.add("org/private", pack_checkpoint(plain), token="hf_secret")
        for call in (snapshot_download, shadow_folder):
            with pytest.raises(RepositoryNotFoundError):
                call("org/private")
        assert files(snapshot_download("org/private", token="hf_secret")) == files(plain)
        blobs = [headers for _, path, headers in hub.requests if path.startswith("/blobs/")]
        assert blobs
        assert not any("authorization" in headers for headers in blobs)

    def test_revisions(self, hub: StubHub, cache: Path, tmp_path: Path) -> None:
        first = write_checkpoint(tmp_path / "first")
        second = write_checkpoint(tmp_path / "second", seed=1)
        repository = hub.add("org/moving", pack_checkpoint(first))
        old = snapshot_download("org/moving")
        sha = repository.commit(files(pack_checkpoint(second)))
        repository.branches["dev"] = sha
        new = snapshot_download("org/moving")
        assert files(old) == files(first)
        assert files(new) == files(second)
        assert snapshot_download("org/moving", revision="dev") == new
        assert snapshot_download("org/moving", revision=sha) == new
        with pytest.raises(RevisionNotFoundError):
            snapshot_download("org/moving", revision="nowhere")

    def test_other_types_of_repositories(self, hub: StubHub, cache: Path, tmp_path: Path) -> None:
        plain = write_checkpoint(tmp_path / "plain")
        hub.add("org/data", pack_checkpoint(plain))
        folder = snapshot_download("org/data", repo_type="dataset")
        assert files(folder) == files(plain)
        assert folder != snapshot_download("org/data")

    @pytest.mark.parametrize("call", [snapshot_download, shadow_folder])
    def test_without_a_connection(
        self, hub: StubHub, cache: Path, tmp_path: Path, call: object
    ) -> None:
        plain = write_checkpoint(tmp_path / "plain")
        name = f"org/offline-{call.__name__}"  # type: ignore[attr-defined]
        hub.add(name, {**files(pack_checkpoint(plain)), **files(plain)})
        with pytest.raises(LocalEntryNotFoundError):
            call(name, local_files_only=True)  # type: ignore[operator]
        folder = call(name)  # type: ignore[operator]
        hub.requests.clear()
        assert call(name, local_files_only=True) == folder  # type: ignore[operator]
        assert not hub.requests
        # The hub does not answer as before; its cache does.
        hub.repositories.clear()
        assert call(name) == folder  # type: ignore[operator]

    def test_an_interrupted_download_is_not_taken_for_all(
        self, hub: StubHub, cache: Path, tmp_path: Path
    ) -> None:
        hub.add("org/part", pack_checkpoint(write_checkpoint(tmp_path / "plain")))
        huggingface_hub.snapshot_download("org/part", allow_patterns="*.zstn")
        with pytest.raises(IncompleteSnapshotError):
            snapshot_download("org/part", local_files_only=True)

    def test_a_link_into_a_cache_that_was_removed_is_renewed(
        self, hub: StubHub, cache: Path, tmp_path: Path
    ) -> None:
        plain = write_checkpoint(tmp_path / "plain")
        hub.add("org/renewed", pack_checkpoint(plain))
        folder = snapshot_download("org/renewed", cache_dir=tmp_path / "one")
        shutil.rmtree(tmp_path / "one")
        assert snapshot_download("org/renewed", cache_dir=tmp_path / "two") == folder
        assert files(folder) == files(plain)

    def test_a_difference_is_refused_before_it_is_downloaded(
        self, hub: StubHub, cache: Path, tmp_path: Path
    ) -> None:
        base = write_checkpoint(tmp_path / "base") / "model.safetensors"
        tuned = write_checkpoint(tmp_path / "tuned", seed=1) / "model.safetensors"
        delta = tmp_path / "delta"
        delta.mkdir()
        zstn.pack(tuned, delta / "model.z4dm", base=base)
        (delta / "config.json").write_text("{}")
        hub.add("org/delta", delta)
        for place in ("org/delta", delta):
            with pytest.raises(zstn.ZstnError, match=r"model\.z4dm.*zstn\.unpack") as caught:
                snapshot_download(place)
            assert caught.value.code == "needs_base"
            assert shadow_folder(place) is None
        assert not hub.fetched("org/delta")
        folder = snapshot_download("org/delta", ignore_patterns="*.z4dm*")
        assert set(files(folder)) == {"config.json"}
        # Not needed where the restored file is there as well.
        shutil.copy(tuned, delta)
        assert "model.safetensors" in files(snapshot_download(delta))


class TestLocal:
    def test_changes_of_a_folder_show(self, cache: Path, tmp_path: Path) -> None:
        packed = pack_checkpoint(write_checkpoint(tmp_path / "plain"))
        folder = snapshot_download(packed)
        (packed / "sub" / "notes.txt").unlink()
        (packed / "sub").rmdir()
        (packed / "tokenizer.json").write_text("[]")
        other = write_checkpoint(tmp_path / "other", seed=1) / "model.safetensors"
        zstn.pack(other, packed / "model.zstn")
        assert snapshot_download(packed) == folder
        found = files(folder)
        assert set(found) == {"model.safetensors", "config.json", "tokenizer.json"}
        assert found["model.safetensors"] == other.read_bytes()
        assert not Path(folder, "sub").exists()

    def test_a_link_in_a_circle_is_not_followed(self, cache: Path, tmp_path: Path) -> None:
        packed = pack_checkpoint(write_checkpoint(tmp_path / "plain"))
        (packed / "self").symlink_to(packed)
        (packed / ".git").mkdir()
        (packed / ".git" / "config").write_text("[core]")
        folder = Path(snapshot_download(packed))
        assert (folder / "self").is_symlink()
        assert not (folder / ".git").exists()

    def test_the_input_is_left_alone(self, cache: Path, plain_folder: Path) -> None:
        packed = pack_checkpoint(plain_folder)
        before = files(packed)
        snapshot_download(packed)
        shadow_folder(packed)
        assert files(packed) == before


class TestShadow:
    def test_packed_files_have_the_names_of_safetensors(
        self, hub: StubHub, cache: Path, plain_folder: Path
    ) -> None:
        packed = pack_checkpoint(plain_folder)
        hub.add("org/shadow", packed)
        for place in ("org/shadow", packed):
            folder = shadow_folder(place)
            assert folder is not None
            assert set(files(folder)) == set(files(plain_folder))
            for name, data in files(folder).items():
                if name.endswith(".safetensors"):
                    assert data.startswith(b"ZSTN")
                else:
                    assert data == (plain_folder / name).read_bytes()

    def test_it_can_be_opened(self, cache: Path, plain_folder: Path) -> None:
        folder = shadow_folder(pack_checkpoint(plain_folder))
        assert folder is not None
        found: dict[str, np.ndarray] = {}
        for path in sorted(Path(folder).glob("*.safetensors")):
            with zstn.safe_open(path, "np") as file:
                found |= file.get_tensors()
        assert_same(found, make_tensors())

    def test_nothing_is_packed(self, hub: StubHub, cache: Path, plain_folder: Path) -> None:
        hub.add("org/nothing", plain_folder)
        assert shadow_folder("org/nothing") is None
        assert shadow_folder(plain_folder) is None
        assert not hub.fetched("org/nothing")
        assert not cache.exists()

    def test_weights_in_other_formats_are_not_downloaded(
        self, hub: StubHub, cache: Path, tmp_path: Path
    ) -> None:
        packed = files(pack_checkpoint(write_checkpoint(tmp_path / "plain")))
        others = {"pytorch_model.bin": b"pickle", "model.onnx": b"graph", "a.gguf": b"GGUF"}
        needed = {**packed, "encoder/pytorch_model.bin": b"the only one here"}
        hub.add("org/others", {**needed, **others})
        shadow_folder("org/others")
        assert hub.fetched("org/others") == set(needed)

    def test_variants(self, cache: Path, tmp_path: Path, packed: Path) -> None:
        folder = tmp_path / "variants"
        folder.mkdir()
        shutil.copy(packed, folder / "model.fp16-00001-of-00001.zstn")
        index = {"metadata": {}, "weight_map": {"ids": "model.fp16-00001-of-00001.zstn"}}
        (folder / "model.zstn.index.fp16.json").write_text(json.dumps(index))
        shown = shadow_folder(folder)
        assert shown is not None
        text = Path(shown, "model.safetensors.index.fp16.json").read_text()
        (shard,) = json.loads(text)["weight_map"].values()
        assert shard == "model.fp16-00001-of-00001.safetensors"
        assert Path(shown, shard).is_file()


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"ZSTN_CACHE": "$HOME/own"}, "/h/own"),
        ({"ZSTN_CACHE": "/own", "HF_HOME": "/hf"}, "/own"),
        ({"HF_HOME": "~/hf", "XDG_CACHE_HOME": "/x"}, "/h/hf/zstn"),
        ({"XDG_CACHE_HOME": "/x"}, "/x/huggingface/zstn"),
        ({}, "/h/.cache/huggingface/zstn"),
    ],
)
def test_where_restored_files_are(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], expected: str
) -> None:
    monkeypatch.setenv("HOME", "/h")
    for name in ("ZSTN_CACHE", "HF_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    assert cache_folder() == Path(expected)


def test_without_huggingface_hub(tmp_path: Path) -> None:
    packed = pack_checkpoint(write_checkpoint(tmp_path / "plain"))
    program = """
        import sys
        sys.modules["huggingface_hub"] = None
        from zstn.hub import snapshot_download, shadow_folder
        print(shadow_folder(sys.argv[1]))
        print(snapshot_download(sys.argv[1]))
        try:
            snapshot_download("org/name")
        except ImportError as error:
            print(error)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), packed],
        env={**os.environ, "ZSTN_CACHE": str(tmp_path / "cache")},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    shadow, restored, error = done.stdout.splitlines()
    assert Path(shadow, "model.safetensors").is_file()
    assert Path(restored, "model.safetensors").is_file()
    assert "pip install huggingface_hub" in error
