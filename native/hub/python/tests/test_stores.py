"""``python -m zstn_hub`` with an object store."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from failing_store import FailingStore
from hub_source import command, events, files, make_plan, run
from hub_source import hub as command_line
from moto import Moto
from stub_hub import StubHub

# moto is only installed for the larger test tier.
pytestmark = pytest.mark.skipif(
    os.environ.get("ZSTN_TESTS") != "all", reason="only with ZSTN_TESTS=all"
)


def test_an_object_store_has_the_same_files(
    source: Path, tmp_path: Path, moto: Moto, monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    for name, value in moto.variables().items():
        monkeypatch.setenv(name, value)
    plan, local = tmp_path / "plan.jsonl", tmp_path / "local.jsonl"
    for path in source.rglob("*.safetensors"):
        moto.put(f"hub/{path.relative_to(source)}", path.read_bytes())
    there = "s3://models/hub"
    rows = make_plan(there, plan)
    expected = make_plan(source, local)
    assert [row["key"] for row in rows] == [row["key"] for row in expected]
    _, summary = run(plan, there, "s3://models/store", status=1)
    assert summary["packed"] == 4
    run(local, source, tmp_path / "store", status=1)
    for name, packed in files(tmp_path / "store").items():
        assert moto.get(f"store/packed/{name}") == packed
    _, summary = run(plan, there, "s3://models/store", status=1)
    assert (summary["known"], summary["read_bytes"]) == (4, 0)
    report = json.loads(command_line("report", "s3://models/store", "--plan", plan, "--json")[0])
    assert report["done_files"] == 4 and report["failed_files"] == 1
    command_line("restore", "s3://models/store", "--plan", plan, "-o", tmp_path / "out", "--only", "b/copy")
    restored = tmp_path / "out/b/copy/sub/model.safetensors"
    assert restored.read_bytes() == (source / "b/copy/sub/model.safetensors").read_bytes()
    _, said = command_line("plan", there, "-o", plan, "--known", plan)
    assert said.endswith("; 0 bytes read\n")


def test_bases_in_an_object_store_are_fetched_once(
    families: Path, tmp_path: Path, moto: Moto, monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    for name, value in moto.variables().items():
        monkeypatch.setenv(name, value)
    plan, store = tmp_path / "plan.jsonl", "s3://models/families"
    rows = make_plan(families, plan, "--base", "auto", "--to", store)
    _, summary = run(plan, families, store)
    assert summary["packed"] == 9
    bases = {row["bases"][0] for row in rows if "bases" in row}
    kept = {path.name for path in (cache / "packed").iterdir()}
    assert kept == {f"{base}.zstn" for base in bases}
    shutil.rmtree(cache)
    child = next(row for row in rows if "bases" in row)
    command_line("restore", store, "--plan", plan, "-o", tmp_path / "out", "--only", child["repo"])
    place = Path(child["repo"], child["path"])
    assert (tmp_path / "out" / place).read_bytes() == (families / place).read_bytes()
    assert [path.name for path in (cache / "packed").iterdir()] == [f"{child['bases'][0]}.zstn"]
    # A damaged base in the store is not used.
    shutil.rmtree(cache)
    moto.put(f"families/packed/{child['bases'][0]}.zstn", b"damaged")
    no = ["-o", str(tmp_path / "no"), "--only", child["repo"]]
    _, said = command_line("restore", store, "--plan", plan, *no, status=1)
    assert "has the SHA-256" in said and not list((tmp_path / "no").rglob("*.safetensors"))


def test_a_store_that_fails_for_a_while(
    families: Path, tmp_path: Path, moto: Moto, monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    for name, value in moto.variables().items():
        monkeypatch.setenv(name, value)
    plan, there, store = tmp_path / "plan.jsonl", "s3://models/source", "s3://models/failing"
    for path in families.rglob("*.safetensors"):
        moto.put(f"source/{path.relative_to(families)}", path.read_bytes())
    rows = make_plan(there, plan, "--base", "auto", "--to", store)
    failing = FailingStore(moto.endpoint)
    monkeypatch.setenv("AWS_ENDPOINT_URL", failing.endpoint)
    running = subprocess.Popen(
        command("run", plan, "--from", there, "--to", store, "--json", "--attempts", "6"),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert running.stdout
    first = running.stdout.readline()
    failing.fail.set()
    # Waits for several failed requests, so that some rows wait for another attempt.
    deadline = time.monotonic() + 60
    while failing.failed < 5 and time.monotonic() < deadline:
        time.sleep(0.02)
    failing.fail.clear()
    outcomes, summary = events(first + running.communicate(timeout=120)[0])
    assert running.returncode == 0 and failing.failed > 0
    assert summary["packed"] == 9
    command_line("restore", store, "--plan", plan, "-o", tmp_path / "out")
    for row in rows:
        place = Path(row["repo"], row["path"])
        assert (tmp_path / "out" / place).read_bytes() == (families / place).read_bytes()

    # The second run reads the listings of ``done``, ``packed`` and ``failed``, and the
    # entries.
    failing.passed.clear()
    _, summary = run(plan, there, store)
    assert (summary["known"], summary["read_bytes"]) == (9, 0)
    assert len(failing.passed) == 3 + 9 and not [p for p in failing.passed if "source" in p]
    failing.close()


def test_a_hub_is_read_at_the_commits_of_its_plan(
    hub: StubHub, families: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    for name in ("base", "tuned0"):
        content = (families / "f0" / name / "model.safetensors").read_bytes()
        hub.add(f"f0/{name}", {"model.safetensors": content}, private=True)
    # The job has to use the hub that it is given, not this one, which does not exist.
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    plan, store = tmp_path / "plan.jsonl", tmp_path / "store"
    command_line("plan", hub.endpoint, "-o", plan, status=1)
    repositories = ["--repo", "f0/base", "--repo", "f0/tuned0"]
    rows = make_plan(hub.endpoint, plan, *repositories, "--base", "auto", "--to", store)
    assert [len(row["revision"]) for row in rows] == [40, 40]
    assert [row["repo"] for row in rows if "bases" not in row] == ["f0/base"]
    _, summary = run(plan, hub.endpoint, store)
    assert summary["packed"] == 2
    # The work is the same as with a local source folder.
    local = tmp_path / "local.jsonl"
    made = make_plan(families, local, "--known", str(plan), "--repo", "f0/base", "--repo", "f0/tuned0")
    assert [row["key"] for row in made] == [row["key"] for row in rows]
