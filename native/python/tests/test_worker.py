"""`zstn worker`, after a push by the real client."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from checkpoint_folders import files, write_checkpoint
from gateway import Gateway, program
from huggingface_hub import HfApi, snapshot_download
from stub_hub import StubHub

NAME = "me/model"
SECRET = "the secret of the webhook"


class Worker:
    """A worker, with the lines of its log."""

    def __init__(self, hub: StubHub, state: Path) -> None:
        self._process = subprocess.Popen(
            [
                *(program(), "worker", "--listen", "127.0.0.1:0", "--json"),
                *("--endpoint", hub.endpoint, "--state", str(state)),
                *("--secret-env", "WEBHOOK_SECRET"),
            ],
            env={**os.environ, "HF_TOKEN": "hf_secret", "WEBHOOK_SECRET": SECRET},
            stdout=subprocess.PIPE,
            text=True,
        )
        self.url = self.line()["url"]

    def line(self) -> dict[str, Any]:
        assert self._process.stdout
        return json.loads(self._process.stdout.readline())

    def until(self, stage: str) -> dict[str, Any]:
        """Reads the log until a job reaches this stage."""
        while True:
            line = self.line()
            assert line.get("stage") not in ("failed", "retry", "refused"), line
            if line.get("stage") == stage:
                return line

    def close(self) -> None:
        self._process.terminate()
        self._process.communicate()
        assert self._process.returncode == 0


@pytest.fixture
def worker(hub: StubHub, tmp_path: Path) -> Iterator[Worker]:
    running = Worker(hub, tmp_path / "state")
    # A worker that hangs is killed, so that the test fails instead of waiting forever.
    guard = threading.Timer(300, running._process.kill)
    guard.start()
    yield running
    guard.cancel()
    running.close()


# This is a warning of httpx in huggingface_hub.
@pytest.mark.filterwarnings("ignore:Use .content=.*:DeprecationWarning")
def test_push(hub: StubHub, worker: Worker, tmp_path: Path) -> None:
    plain = write_checkpoint(tmp_path / "plain")
    api = HfApi(token="hf_secret")
    watched = [{"type": "user", "name": "me"}]
    api.create_webhook(url=worker.url, watched=watched, domains=["repo"], secret=SECRET)
    api.create_repo(NAME)
    api.upload_folder(repo_id=NAME, folder_path=plain)

    committed = worker.until("committed")
    assert committed["repo"] == NAME
    # The worker's own commit causes no work.
    assert worker.until("nothing")["detail"] == "a commit of this worker"
    commits = api.list_repo_commits(NAME)
    assert commits[0].title == "Add packed weights"
    assert "Packed-by: zstn " in commits[0].message
    assert "model.zstn" in api.list_repo_files(NAME)

    # After the originals have been deleted, the gateway restores them.
    names = [name for name in api.list_repo_files(NAME) if ".safetensors" in name]
    api.delete_files(NAME, names)
    gateway = Gateway(hub.endpoint)
    folder = snapshot_download(NAME, endpoint=gateway.endpoint, cache_dir=tmp_path / "cache")
    found = files(folder)
    found.pop(".gitattributes", None)
    assert found == files(plain)
    gateway.close()
