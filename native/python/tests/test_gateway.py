"""Programs that do not support packed files, with `zstn gateway`."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import huggingface_hub.errors as errors
import pytest
import safetensors
from checkpoint_folders import files, pack_checkpoint, write_checkpoint
from gateway import Gateway
from huggingface_hub import HfApi, HfFileSystem, hf_hub_download, snapshot_download
from stub_hub import StubHub

NAME = "me/model"


@pytest.fixture
def gateway(hub: StubHub) -> Iterator[Gateway]:
    server = Gateway(hub.endpoint)
    yield server
    server.close()


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    return write_checkpoint(tmp_path / "plain", 3)


def restored(folder: str | Path) -> dict[str, bytes]:
    return {name: data for name, data in files(folder).items() if name != ".gitattributes"}


def test_snapshot_download(hub: StubHub, gateway: Gateway, plain: Path, tmp_path: Path) -> None:
    hub.add(NAME, pack_checkpoint(plain))
    cache = tmp_path / "cache"

    def download() -> str:
        return snapshot_download(NAME, endpoint=gateway.endpoint, cache_dir=cache)

    folder = Path(download())
    assert restored(folder) == files(plain)
    # The client names large files by the digest in the response.
    large = [path for path in folder.rglob("*.safetensors")]
    assert len(large) == 3
    for path in large:
        assert path.resolve().name == hashlib.sha256(path.read_bytes()).hexdigest()
    # Everything is in the cache. A second download transfers only the first byte of
    # each file, which proves that the client may read it.
    hub.clear_log()
    assert download() == str(folder)
    fetched = [request for request in hub.log if request["path"].startswith("/cdn")]
    assert all(["range", "bytes=0-0"] in request["headers"] for request in fetched)


def test_folder_of_repositories(plain: Path, tmp_path: Path) -> None:
    packed = pack_checkpoint(plain)
    root = tmp_path / "root"
    (root / "me").mkdir(parents=True)
    packed.rename(root / NAME)
    server = Gateway(root)
    folder = snapshot_download(NAME, endpoint=server.endpoint, cache_dir=tmp_path / "cache")
    assert restored(folder) == files(plain)
    assert {request["status"] for request in server.close()} <= {200}


def test_lists(hub: StubHub, gateway: Gateway, plain: Path) -> None:
    hub.add(NAME, pack_checkpoint(plain))
    api = HfApi(endpoint=gateway.endpoint)
    assert set(api.list_repo_files(NAME)) - {".gitattributes"} == set(files(plain))
    sizes = {path: len(data) for path, data in files(plain).items()}
    tree = api.list_repo_tree(NAME, recursive=True, expand=True)
    found = {entry.path: entry.size for entry in tree if hasattr(entry, "size")}
    found.pop(".gitattributes", None)
    assert found == sizes
    [info] = api.get_paths_info(NAME, ["model-00001-of-00003.safetensors"])
    assert info.size == sizes[info.path]
    metadata = api.get_safetensors_metadata(NAME)
    assert metadata.sharded and len(metadata.files_metadata) == 3


def test_file_system(hub: StubHub, gateway: Gateway, plain: Path) -> None:
    hub.add(NAME, pack_checkpoint(plain))
    fs = HfFileSystem(endpoint=gateway.endpoint)
    path = f"{NAME}/model-00002-of-00003.safetensors"
    data = (plain / "model-00002-of-00003.safetensors").read_bytes()
    assert fs.size(path) == len(data)
    assert fs.cat_ranges([path] * 2, [0, 100], [8, 300]) == [data[:8], data[100:300]]
    with fs.open(path, block_size=1000) as file:
        file.seek(500)
        assert file.read(1700) == data[500:2200]


def test_command_line(hub: StubHub, gateway: Gateway, plain: Path, tmp_path: Path) -> None:
    hub.add(NAME, pack_checkpoint(plain), private=True)
    hf = Path(sys.executable).with_name("hf")
    environment = {
        **os.environ,
        "HF_ENDPOINT": gateway.endpoint,
        "HF_HOME": str(tmp_path / "home"),
        "HF_TOKEN": "hf_secret",
        "HF_HUB_DISABLE_UPDATE_CHECK": "1",
    }
    command = [hf, "download", NAME, "--local-dir", tmp_path / "local"]
    subprocess.run(command, env=environment, check=True, capture_output=True)
    found = restored(tmp_path / "local")
    assert {name: found[name] for name in files(plain)} == files(plain)


def test_safe_open(hub: StubHub, gateway: Gateway, tmp_path: Path) -> None:
    plain = write_checkpoint(tmp_path / "one")
    hub.add(NAME, pack_checkpoint(plain))
    path = hf_hub_download(NAME, "model.safetensors", endpoint=gateway.endpoint)
    with (
        safetensors.safe_open(path, "np") as ours,
        safetensors.safe_open(plain / "model.safetensors", "np") as original,
    ):
        assert ours.keys() == original.keys()
        assert ours.metadata() == original.metadata()
        for name in original.keys():  # noqa: SIM118
            assert ours.get_tensor(name).tobytes() == original.get_tensor(name).tobytes()


@pytest.mark.parametrize(
    ("token", "file"),
    [
        (False, "model.safetensors"),
        ("wrong", "model.safetensors"),
        ("hf_secret", "missing.safetensors"),
        ("hf_secret", "missing.json"),
    ],
)
def test_refusals_are_those_of_the_hub(
    hub: StubHub, gateway: Gateway, tmp_path: Path, token: str | bool, file: str
) -> None:
    """A client cannot distinguish the gateway's refusal from the hub's."""
    hub.add(NAME, pack_checkpoint(write_checkpoint(tmp_path / "one")), private=True)

    def refusal(endpoint: str, file: str) -> tuple[type, int]:
        with pytest.raises(errors.HfHubHTTPError) as raised:
            hf_hub_download(NAME, file, token=token, endpoint=endpoint, cache_dir=tmp_path)
        return raised.type, raised.value.response.status_code

    assert refusal(gateway.endpoint, file) == refusal(hub.endpoint, file)


# huggingface_hub uploads with LFS in a way that its HTTP client deprecates.
@pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")
def test_uploads_go_through(hub: StubHub, gateway: Gateway, plain: Path, tmp_path: Path) -> None:
    api = HfApi(endpoint=gateway.endpoint, token="hf_secret")
    api.create_repo("me/new")
    api.upload_folder(repo_id="me/new", folder_path=pack_checkpoint(plain))
    folder = snapshot_download("me/new", endpoint=gateway.endpoint, cache_dir=tmp_path)
    assert restored(folder) == files(plain)


def test_a_lost_upstream_is_a_sentence(hub: StubHub, gateway: Gateway, tmp_path: Path) -> None:
    hub.add(NAME, pack_checkpoint(write_checkpoint(tmp_path / "one")))
    hub.inject(status=503)
    with pytest.raises(errors.HfHubHTTPError) as raised:
        HfApi(endpoint=gateway.endpoint).get_paths_info(NAME, ["model.safetensors"])
    assert raised.value.response.status_code == 503
