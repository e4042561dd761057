"""Folders with the originals of packed files."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import huggingface_hub
import pytest
import z4ai.safetensors
from checkpoint_folders import files, pack_checkpoint, write_checkpoint, write_other_models
from stub_hub import StubHub

import zstn
from zstn.hub import cache_folder, shadow_folder, snapshot_download


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

    def test_models_of_other_formats_are_restored(
        self, hub: StubHub, cache: Path, plain_folder: Path
    ) -> None:
        write_other_models(plain_folder)
        packed = pack_checkpoint(plain_folder)
        assert (packed / "model.gguf.zstn").is_file()
        hub.add("org/other", packed)
        for place in ("org/other", packed):
            assert files(snapshot_download(place)) == files(plain_folder)

    @pytest.mark.parametrize("is_local", [True, False], ids=["a folder", "a repository"])
    def test_patterns_select_packed_files_by_what_they_restore(
        self, hub: StubHub, cache: Path, plain_folder: Path, is_local: bool
    ) -> None:
        write_other_models(plain_folder)
        packed = pack_checkpoint(plain_folder)
        hub.add("org/chosen", packed)
        place = packed if is_local else "org/chosen"
        weights = {name for name in files(plain_folder) if name.endswith(".safetensors")}
        chosen = snapshot_download(place, allow_patterns="*.safetensors")
        assert set(files(chosen)) == weights
        assert is_local or "model.gguf.zstn" not in hub.fetched("org/chosen")
        others = files(plain_folder).keys() - weights
        for expected, patterns in [
            ({"model.gguf"}, {"allow_patterns": ["*.gguf"]}),
            (others, {"ignore_patterns": "*.safetensors"}),
        ]:
            # The folder of a commit also shows files that were requested before.
            before = set() if is_local else set(files(chosen))
            chosen = snapshot_download(place, **patterns)
            assert set(files(chosen)) == before | expected

    def test_a_file_that_was_kept_whole_is_restored(self, cache: Path, tmp_path: Path) -> None:
        whole = tmp_path / "whole"
        whole.mkdir()
        header = b'{"a":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}}'
        original = len(header).to_bytes(8, "little") + header + b"123456"
        (tmp_path / "model.safetensors").write_bytes(original)
        report = zstn.pack(tmp_path / "model.safetensors", whole / "model.zstn")
        assert report.files[0].storage == "single_frame"
        assert files(snapshot_download(whole)) == {"model.safetensors": original}

    @pytest.mark.skipif(os.name != "posix", reason="modes of files")
    def test_what_repositories_share_is_not_writable(self, cache: Path, plain_folder: Path) -> None:
        folder = Path(snapshot_download(pack_checkpoint(plain_folder)))
        for path in folder.rglob("*.safetensors"):
            assert path.stat().st_mode & 0o222 == 0

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
        # The second file is restored, too, and found to be equal.
        assert second.stat().st_ino == inode
        assert len(list(cache.glob("*/model.safetensors"))) == 1

    def test_a_digest_that_a_file_claims_gives_no_other_file(
        self, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        good = write_checkpoint(tmp_path / "good")
        snapshot_download(pack_checkpoint(good))
        digest = hashlib.sha256((good / "model.safetensors").read_bytes()).hexdigest()
        evil = tmp_path / "evil"
        evil.mkdir()
        other = write_checkpoint(tmp_path / "other", seed=1) / "model.safetensors"
        zstn.pack(other, evil / "model.zstn")
        # A forged file records the digest of another file.
        monkeypatch.setattr("zstn.hub._restore._recorded", lambda packed: digest)
        with pytest.raises(zstn.ZstnError, match="has the SHA-256") as error:
            snapshot_download(evil)
        assert error.value.code == "differs"

    def test_a_file_without_digests_is_restored_once(self, cache: Path, tmp_path: Path) -> None:
        plain = write_checkpoint(tmp_path / "plain") / "model.safetensors"
        packed = tmp_path / "packed"
        packed.mkdir()
        z4ai.safetensors.compress_file(str(plain), str(packed / "model.zstn"))
        first = Path(snapshot_download(packed), "model.safetensors")
        assert first.read_bytes() == plain.read_bytes()
        inode = first.stat().st_ino
        assert Path(snapshot_download(packed), "model.safetensors").stat().st_ino == inode
        # A replaced packed file is noticed.
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
        plain = write_checkpoint(tmp_path / "plain")
        packed = pack_checkpoint(plain)
        program = """if True:
            import sys, zstn.hub
            calls = []
            print(zstn.hub.snapshot_download(sys.argv[1], progress=lambda *at: calls.append(at)))
            print(len(calls))
        """
        running = [
            subprocess.Popen(
                [sys.executable, "-c", program, packed], stdout=subprocess.PIPE, text=True
            )
            for _ in range(5)
        ]
        printed = [process.communicate()[0].splitlines() for process in running]
        assert [process.returncode for process in running] == [0] * 5
        (folder,) = {folder for folder, _ in printed}
        # The other processes have waited for the one that restored the file.
        assert sorted(calls != "0" for _, calls in printed) == [False] * 4 + [True]
        assert files(folder) == files(plain)
        assert not list(cache.glob(".incomplete/*"))

    def test_progress_is_reported(self, cache: Path, tmp_path: Path) -> None:
        packed = pack_checkpoint(write_checkpoint(tmp_path / "plain"))
        seen: list[tuple[int, int]] = []
        snapshot_download(packed, progress=lambda done, total: seen.append((done, total)))
        assert seen[-1][0] == seen[-1][1] > 0


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
