"""The stub hub responds to huggingface_hub and hf_xet as a real hub does."""

from __future__ import annotations

import hashlib
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.client import IncompleteRead
from http.server import BaseHTTPRequestHandler, HTTPServer
from json import loads
from pathlib import Path
from queue import Queue
from threading import Thread

import huggingface_hub
import numpy as np
import pytest
from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi, HfFileSystem
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    RemoteEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from stub_hub import StubHub

REPO = "me/model"

# huggingface_hub uploads with LFS in a way that its HTTP client deprecates.
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")


@pytest.fixture
def api(hub: StubHub) -> HfApi:
    api = HfApi(token="hf_secret")
    api.create_repo(REPO)
    return api


@pytest.fixture(params=["lfs", "xet"])
def transfer(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_DISABLE_XET", request.param == "lfs")
    return request.param


@pytest.fixture
def contents(tmp_path: Path) -> dict[str, bytes]:
    """Files whose chunks Xet stores in each of its schemes."""
    random = np.random.default_rng(int.from_bytes(str(tmp_path).encode()[-8:]))
    return {
        "random.zstn": random.bytes(700_000),
        "floats.safetensors": random.standard_normal(200_000, np.float32).tobytes() + b"end",
        "sub/repeated.bin": random.bytes(13) * 40_000,
        "config.json": b"{}",
    }


def commit(api: HfApi, files: dict[str, bytes], **options: object) -> huggingface_hub.CommitInfo:
    operations = [CommitOperationAdd(path, data) for path, data in files.items()]
    return api.create_commit(REPO, operations, commit_message="Add", **options)  # type: ignore[call-overload]


def test_files_come_back(
    hub: StubHub, api: HfApi, transfer: str, contents: dict[str, bytes], tmp_path: Path
) -> None:
    commit(api, contents)
    tree = {file.path: file for file in api.list_repo_tree(REPO, recursive=True)}
    assert set(contents) < set(tree)
    assert (tree["random.zstn"].xet_hash is not None) == (transfer == "xet")
    assert tree["random.zstn"].lfs.sha256 == hashlib.sha256(contents["random.zstn"]).hexdigest()
    folder = Path(huggingface_hub.snapshot_download(REPO, cache_dir=tmp_path))
    for path, data in contents.items():
        assert (folder / path).read_bytes() == data
        # Other programs support neither Xet nor tokens.
        with urllib.request.urlopen(f"{hub.endpoint}/{REPO}/resolve/main/{path}") as answer:
            assert answer.read() == data
    uploads = [path for method, path, _ in hub.requests if method == "PUT"]
    assert bool(uploads) == (transfer == "lfs")
    with_token = [path for _, path, headers in hub.requests if "authorization" in headers]
    assert not any(path.startswith("/cdn/") for path in with_token)


def test_the_other_way_of_transfer_knows_the_file(
    hub: StubHub, api: HfApi, monkeypatch: pytest.MonkeyPatch, contents: dict[str, bytes]
) -> None:
    files = {"random.zstn": contents["random.zstn"]}
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_DISABLE_XET", False)
    commit(api, files)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_DISABLE_XET", True)
    commit(api, {"again.zstn": files["random.zstn"]})
    assert not any(method == "PUT" for method, _, _ in hub.requests)


def test_parts(contents: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    hub = StubHub("--parts", "300000", "--page", "2")
    try:
        api = HfApi(endpoint=hub.endpoint, token="hf_secret")
        api.create_repo(REPO)
        commit(api, contents)
        parts = [one["received_bytes"] for one in hub.log if one["method"] == "PUT"]
        assert parts.count(300_000) >= 4
        assert len(api.list_repo_files(REPO)) == len(contents) + 1
        with HfFileSystem(endpoint=hub.endpoint).open(f"{REPO}/random.zstn") as file:
            assert file.read() == contents["random.zstn"]
    finally:
        hub.close()


def test_ranges(hub: StubHub, api: HfApi, contents: dict[str, bytes]) -> None:
    commit(api, contents)
    files = HfFileSystem()
    assert f"{REPO}/sub/repeated.bin" in files.find(REPO)
    for path in ("random.zstn", "config.json"):
        found = files.cat_ranges([f"{REPO}/{path}"] * 2, [0, 1], [1, 2])
        assert found == [contents[path][:1], contents[path][1:2]]
    assert 206 in [one["status"] for one in hub.log if one["path"].startswith("/cdn/")]


def test_commits_keep_their_files(hub: StubHub, api: HfApi) -> None:
    first = commit(api, {"a": b"1", "folder/b": b"2"})
    operations = [CommitOperationDelete("folder/"), CommitOperationAdd("a", b"3")]
    second = api.create_commit(REPO, operations, commit_message="x", parent_commit=first.oid)
    assert api.list_repo_files(REPO, revision=first.oid) == [".gitattributes", "a", "folder/b"]
    assert api.list_repo_files(REPO) == [".gitattributes", "a"]
    request = commit(api, {"c": b"4"}, create_pr=True)
    assert request.pr_revision == "refs/pr/1"
    assert "c" in api.list_repo_files(REPO, revision="refs/pr/1")
    assert api.model_info(REPO).sha == second.oid
    assert [one.commit_id for one in api.list_repo_commits(REPO)][:2] == [second.oid, first.oid]
    with pytest.raises(HfHubHTTPError, match="A commit has happened since") as caught:
        commit(api, {"d": b"5"}, parent_commit=first.oid)
    assert caught.value.response.status_code == 412


def test_what_is_missing(hub: StubHub, api: HfApi) -> None:
    for call, error in (
        (lambda: api.hf_hub_download(REPO, "nothing"), RemoteEntryNotFoundError),
        (lambda: api.hf_hub_download(REPO, "a", revision="no"), RevisionNotFoundError),
        (lambda: api.model_info("me/nothing"), RepositoryNotFoundError),
        (lambda: HfApi(token=False).model_info("me/nothing"), RepositoryNotFoundError),
    ):
        with pytest.raises(error):
            call()


@pytest.mark.parametrize("token", ["hf_reader", False])
def test_who_may_not_write(hub: StubHub, api: HfApi, token: str | bool) -> None:
    with pytest.raises(HfHubHTTPError) as caught:
        commit(HfApi(token=token), {"a": b"1"})
    assert caught.value.response.status_code == (403 if token else 401)


def test_who_may_read(hub: StubHub, api: HfApi) -> None:
    reader, stranger, owner = (
        lambda token=token: huggingface_hub.get_hf_file_metadata(
            huggingface_hub.hf_hub_url(REPO, ".gitattributes"), token=token
        )
        for token in ("hf_reader", False, "hf_secret")
    )
    stranger()
    api.update_repo_settings(REPO, private=True)
    reader()
    with pytest.raises(RepositoryNotFoundError):
        stranger()
    api.update_repo_settings(REPO, private=False, gated="auto")
    owner()
    for visitor, status in ((reader, 403), (stranger, 401)):
        with pytest.raises(GatedRepoError) as caught:
            visitor()
        assert caught.value.response.status_code == status


@pytest.fixture
def receiver() -> Iterator[tuple[str, Queue]]:
    received: Queue = Queue()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.put((self.headers, loads(body)))
            self.send_response(202)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/hook", received
    server.shutdown()
    thread.join()
    server.server_close()


def test_webhooks(receiver: tuple[str, Queue]) -> None:
    url, received = receiver
    hub = StubHub("--webhook", url, "--webhook-secret", "open sesame")
    try:
        api = HfApi(endpoint=hub.endpoint, token="hf_secret")
        api.create_repo(REPO)
        before = api.model_info(REPO).sha
        after = commit(api, {"a": b"1"}).oid
        headers, payload = received.get(timeout=60)
    finally:
        hub.close()
    assert headers["X-Webhook-Secret"] == "open sesame"
    assert payload["event"] == {"action": "update", "scope": "repo.content"}
    assert payload["repo"]["name"] == REPO
    assert payload["repo"]["headSha"] == after
    assert payload["updatedRefs"] == [
        {"ref": "refs/heads/main", "oldSha": before, "newSha": after}
    ]
    assert payload["webhook"]["version"] == 3


def test_faults(hub: StubHub, api: HfApi, contents: dict[str, bytes]) -> None:
    data = contents["random.zstn"]
    commit(api, {"random.zstn": data})
    url = f"{hub.endpoint}/{REPO}/resolve/main/random.zstn"

    def fetch() -> tuple[bytes, str]:
        with urllib.request.urlopen(url) as answer:
            return answer.read(), answer.headers["ETag"]

    etag = fetch()[1]
    hub.inject(path="/cdn/", status=503, times=1, skip=1)
    assert fetch() == (data, etag)
    with pytest.raises(urllib.error.HTTPError, match="503"):
        fetch()
    assert fetch() == (data, etag)
    hub.inject(path="/cdn/", cut_bytes=1000)
    with pytest.raises(IncompleteRead):
        fetch()
    hub.heal()
    hub.inject(path="/cdn/", changed=True, slow_ms=1)
    changed, other = fetch()
    assert len(changed) == len(data)
    assert changed != data
    assert other != etag
