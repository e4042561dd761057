"""Downloads from a hub. The hub is a stub, huggingface_hub is real."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import huggingface_hub
import pytest
from checkpoint_folders import files, pack_checkpoint, write_checkpoint
from huggingface_hub.errors import (
    IncompleteSnapshotError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from stub_hub import StubHub

import zstn
from zstn.hub import shadow_folder, snapshot_download


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
        hub.add("org/private", pack_checkpoint(plain), private=True)
        for call in (snapshot_download, shadow_folder):
            with pytest.raises(RepositoryNotFoundError):
                call("org/private")
        assert files(snapshot_download("org/private", token="hf_secret")) == files(plain)
        blobs = [headers for _, path, headers in hub.requests if path.startswith("/cdn/")]
        assert blobs
        assert not any("authorization" in headers for headers in blobs)

    def test_revisions(self, hub: StubHub, cache: Path, tmp_path: Path) -> None:
        first = write_checkpoint(tmp_path / "first")
        second = write_checkpoint(tmp_path / "second", seed=1)
        hub.add("org/moving", pack_checkpoint(first))
        old = snapshot_download("org/moving")
        sha = hub.add("org/moving", pack_checkpoint(second))
        api = huggingface_hub.HfApi(token="hf_secret")
        api.create_branch("org/moving", branch="dev", revision=sha)
        new = snapshot_download("org/moving")
        assert files(old) == files(first)
        assert files(new) == files(second)
        assert snapshot_download("org/moving", revision="dev") == new
        assert snapshot_download("org/moving", revision=sha) == new
        with pytest.raises(RevisionNotFoundError):
            snapshot_download("org/moving", revision="nowhere")

    def test_other_types_of_repositories(self, hub: StubHub, cache: Path, tmp_path: Path) -> None:
        plain = write_checkpoint(tmp_path / "plain")
        packed = pack_checkpoint(plain)
        for repo_type in ("model", "dataset"):
            hub.add("org/data", packed, repo_type=repo_type)
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
        hub.clear_log()
        assert call(name, local_files_only=True) == folder  # type: ignore[operator]
        assert not hub.requests
        # The hub no longer has the repository, but the cache does.
        hub.clear()
        assert call(name) == folder  # type: ignore[operator]

    @pytest.mark.parametrize("call", [snapshot_download, shadow_folder])
    def test_missing_folders_are_named(self, call: Callable[[str], object], cache: Path) -> None:
        for name in ("./missing", "/no/folder", "~/model", "plain/of/mine"):
            with pytest.raises(FileNotFoundError, match="no such folder") as error:
                call(name)
            assert error.value.filename == name

    def test_a_hub_that_cannot_be_reached(self, cache: Path) -> None:
        program = "import zstn.hub; zstn.hub.snapshot_download('org/never')"
        done = subprocess.run(
            [sys.executable, "-c", program], env={**os.environ, "HF_ENDPOINT": "http://127.0.0.1:9"},
            capture_output=True, text=True,
        )  # fmt: skip
        assert "org/never has not been downloaded before, and its files cannot be listed on the hub" in done.stderr

    def test_the_setting_for_no_connection(self, hub: StubHub, cache: Path, tmp_path: Path) -> None:
        hub.add("org/setting", pack_checkpoint(write_checkpoint(tmp_path / "plain")))
        folder = snapshot_download("org/setting")
        hub.clear_log()
        program = "import zstn.hub; print(zstn.hub.snapshot_download('org/setting'))"
        done = subprocess.run(
            [sys.executable, "-c", program], env={**os.environ, "HF_HUB_OFFLINE": "1"},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert done.stdout.strip() == folder
        assert not hub.requests

    def test_an_interrupted_download_is_not_taken_for_all(
        self, hub: StubHub, cache: Path, tmp_path: Path
    ) -> None:
        hub.add("org/part", pack_checkpoint(write_checkpoint(tmp_path / "plain")))
        huggingface_hub.snapshot_download("org/part", allow_patterns="*.zstn")
        with pytest.raises(IncompleteSnapshotError):
            snapshot_download("org/part", local_files_only=True)

    def test_a_list_of_files_that_fails_is_not_taken_from_part_of_them(
        self, hub: StubHub, cache: Path, tmp_path: Path
    ) -> None:
        plain = write_checkpoint(tmp_path / "plain")
        hub.add("org/failing", pack_checkpoint(plain))
        huggingface_hub.snapshot_download("org/failing", allow_patterns="config.json")
        # The first request of zstn fails; later requests of huggingface_hub succeed.
        hub.inject(path="/api/models/", status=503, times=1)
        with pytest.raises(IncompleteSnapshotError):
            snapshot_download("org/failing")
        assert 503 in [one["status"] for one in hub.log]
        assert files(snapshot_download("org/failing")) == files(plain)

    def test_a_branch_that_never_stays_is_an_error(
        self, hub: StubHub, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        packed = files(pack_checkpoint(write_checkpoint(tmp_path / "plain")))
        hub.add("org/restless", packed)
        info = huggingface_hub.HfApi.repo_info

        def then_another_commit(*args: object, **options: object) -> object:
            found = info(*args, **options)  # type: ignore[arg-type]
            hub.add("org/restless", packed)
            return found

        monkeypatch.setattr(huggingface_hub.HfApi, "repo_info", then_another_commit)
        for call in (snapshot_download, shadow_folder):
            with pytest.raises(zstn.ZstnError, match="another commit") as caught:
                call("org/restless")
            assert caught.value.code == "changed"

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
        # The delta is not needed if the restored file is also available.
        shutil.copy(tuned, delta)
        assert "model.safetensors" in files(snapshot_download(delta))
