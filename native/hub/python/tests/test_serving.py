"""``zstn gateway --plan``, which serves the results of ``python -m zstn_hub`` as a hub.
"""

from __future__ import annotations

import json
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from gateway import Gateway, program
from hub_source import hub, tuned, weights, write
from huggingface_hub import HfApi, snapshot_download


@pytest.fixture
def packed(tmp_path: Path) -> tuple[Path, Path, Path]:
    """A source, its plan and its results: a base, two fine-tunes of it, an unrelated
    file, and a file that is not packed."""
    source, plan, store = tmp_path / "source", tmp_path / "plan.jsonl", tmp_path / "store"
    base = weights(0, 60_000)
    write(source, "me/base/model.safetensors", base)
    for number in range(2):
        write(source, f"me/tuned/part{number}/model.safetensors", tuned(base, number))
    write(source, "me/alone/model.safetensors", weights(1, 20_000))
    (source / "me/bad").mkdir()
    (source / "me/bad/model.safetensors").write_bytes(b"\x08\0\0\0\0\0\0\0nonsense")
    hub("plan", source, "-o", plan, "--base", "auto", "--to", store)
    hub("run", plan, "--from", source, "--to", store, status=1)
    return source, plan, store


@pytest.fixture
def endpoint(packed: tuple[Path, Path, Path]) -> Iterator[str]:
    _, plan, store = packed
    gateway = Gateway(store, "--plan", plan)
    yield gateway.endpoint
    gateway.close()


def test_a_client_of_hubs_downloads_the_originals(
    packed: tuple[Path, Path, Path], endpoint: str, tmp_path: Path
) -> None:
    source, plan, _ = packed
    rows = [json.loads(line) for line in plan.read_text().splitlines()]
    assert sum("bases" in row for row in rows) == 2
    for name in ("me/base", "me/tuned", "me/alone"):
        local = tmp_path / "local" / name
        snapshot_download(name, endpoint=endpoint, local_dir=local)
        expected = {p.relative_to(source / name): p for p in (source / name).rglob("*.safetensors")}
        found = {p.relative_to(local): p for p in local.rglob("*.safetensors")}
        assert found.keys() == expected.keys()
        for path, original in expected.items():
            assert found[path].read_bytes() == original.read_bytes()
    # Files that are not done are not listed.
    assert HfApi(endpoint=endpoint).list_repo_files("me/bad") == []


def test_ranges_of_differences(packed: tuple[Path, Path, Path], endpoint: str) -> None:
    source, plan, store = packed
    rows = [json.loads(line) for line in plan.read_text().splitlines()]
    row = next(row for row in rows if "bases" in row)
    url = f"{endpoint}/{row['repo']}/resolve/main/{row['path']}"
    request = urllib.request.Request(url, headers={"Range": "bytes=1000-1999"})
    with urllib.request.urlopen(request) as answer:
        assert answer.status == 206 and row["key"] in answer.headers["ETag"]
        original = (source / row["repo"] / row["path"]).read_bytes()
        assert answer.read() == original[1000:2000]
    # A damaged base in the store causes an error, not wrong bytes.
    other = [row for row in rows if "bases" in row][1]
    (store / "packed" / f"{other['key']}.z4dm").write_bytes(b"damaged")
    with pytest.raises(urllib.error.HTTPError):
        urllib.request.urlopen(f"{endpoint}/{other['repo']}/resolve/main/{other['path']}")


def test_plans_that_cannot_be_shown_are_refused(
    packed: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    _, plan, store = packed
    rows = [json.loads(line) for line in plan.read_text().splitlines()]
    del rows[1]["key"]
    other = tmp_path / "other.jsonl"
    other.write_text("".join(json.dumps(row) + "\n" for row in rows))
    for upstream, path, message in [
        (str(store), other, "line 2: it has no key"),
        ("https://hub.example.org", plan, "must be the folder of its results"),
    ]:
        arguments = ["gateway", "--upstream", upstream, "--plan", str(path), "--port", "0"]
        done = subprocess.run([program(), *arguments], capture_output=True, text=True, timeout=60)
        assert done.returncode != 0 and message in done.stderr
