"""``python -m zstn.hub`` with an object store."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from failing_store import FailingStore
from hub_fixtures import families, moto, scratch, source  # noqa: F401
from hub_source import command, events, files, hub, make_plan, run
from moto import Moto


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
    report = json.loads(hub("report", "s3://models/store", "--plan", plan, "--json")[0])
    assert report["done_files"] == 4 and report["failed_files"] == 1
    hub("restore", "s3://models/store", "--plan", plan, "-o", tmp_path / "out", "--only", "b/copy")
    restored = tmp_path / "out/b/copy/sub/model.safetensors"
    assert restored.read_bytes() == (source / "b/copy/sub/model.safetensors").read_bytes()
    _, said = hub("plan", there, "-o", plan, "--known", plan)
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
    hub("restore", store, "--plan", plan, "-o", tmp_path / "out", "--only", child["repo"])
    place = Path(child["repo"], child["path"])
    assert (tmp_path / "out" / place).read_bytes() == (families / place).read_bytes()
    assert [path.name for path in (cache / "packed").iterdir()] == [f"{child['bases'][0]}.zstn"]
    # A damaged base in the store is not taken.
    shutil.rmtree(cache)
    moto.put(f"families/packed/{child['bases'][0]}.zstn", b"damaged")
    no = ["-o", str(tmp_path / "no"), "--only", child["repo"]]
    _, said = hub("restore", store, "--plan", plan, *no, status=1)
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
    time.sleep(4)
    failing.fail.clear()
    outcomes, summary = events(first + running.communicate(timeout=120)[0])
    assert running.returncode == 0 and failing.failed > 0
    assert summary["packed"] == 9
    hub("restore", store, "--plan", plan, "-o", tmp_path / "out")
    for row in rows:
        place = Path(row["repo"], row["path"])
        assert (tmp_path / "out" / place).read_bytes() == (families / place).read_bytes()

    # The second run reads nothing but one list of what is done, and that of failures.
    failing.passed.clear()
    _, summary = run(plan, there, store)
    assert (summary["known"], summary["read_bytes"]) == (9, 0)
    assert len(failing.passed) == 2 and not [p for p in failing.passed if "source" in p]
    failing.close()
