"""A job on a cluster of two nodes, during which a worker and a node are killed and the
store refuses requests. Every file must be packed once and restored."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cluster
import pytest
from hub_files import HubFile, hub_files
from runs import LIMIT_SECONDS, SOURCE, figure, finish, hub, start
from store import Store

from zstn import _native

_COUNT = int(os.environ.get("ZSTN_HUB_JOB_FILES", "200"))
_RESULTS = "s3://packed/results"


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("job")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("ZSTN_CACHE", str(folder / "cache"))
        yield folder


@pytest.fixture(scope="module")
def store(work: Path) -> Iterator[Store]:
    with Store(work) as running, pytest.MonkeyPatch.context() as environment:
        for name, value in running.environment().items():
            environment.setenv(name, value)
        for bucket in ("originals", "packed"):
            running.make_bucket(bucket)
        yield running


@pytest.fixture(scope="module")
def nodes(store: Store) -> Iterator[cluster.Nodes]:
    # The cluster starts after the store, because workers inherit its environment
    # variables from their nodes.
    running = cluster.Nodes()
    yield running
    running.close()


def make_plan(path: Path, *arguments: str) -> list[dict[str, Any]]:
    options = ["-o", str(path), "--base", "auto", "--to", _RESULTS, *arguments]
    done = hub("plan", SOURCE, *options)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in path.read_text().splitlines()]


def put(store: Store, files: list[HubFile]) -> None:
    for file in files:
        store.put(f"originals/models/{file.name}", file.content)


def keys_in(bases: list[Any]) -> Iterator[str]:
    """Returns the keys in a tree of bases."""
    for item in bases:
        if isinstance(item, list):
            yield from keys_in(item)
        else:
            yield item


def until(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + LIMIT_SECONDS
    while not condition():
        assert process.poll() is None, "the run ended too early"
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_job_survives_its_machines(store: Store, nodes: cluster.Nodes, work: Path) -> None:
    files = hub_files(_COUNT)
    put(store, files)
    broken = HubFile("broken/header/model.safetensors", b"\xff" * 8 + b"no header" * 1000)
    put(store, [broken])
    plan = work / "plan.jsonl"
    rows = make_plan(plan)
    assert len(rows) == _COUNT + 1
    assert sum("bases" in row for row in rows) > _COUNT / 3
    # The file exceeds the folder for temporary files of every node.
    huge = {"repo": "too/large", "revision": "main", "path": "m.safetensors", "size": 10**13}
    sha256 = "0" * 64
    key = _native.plan_key(sha256, "balanced", False, "[]")
    with plan.open("a") as lines:
        lines.write(json.dumps({**huge, "sha256": sha256, "key": key}) + "\n")
    # The file changes after it was listed.
    changed = next(row for row in rows if "bases" in row)
    original = next(file for file in files if file.sha256 == changed["sha256"])
    places = {row["repo"] for row in rows if row["sha256"] == changed["sha256"]}
    for file in files:
        if file.sha256 == original.sha256:
            flipped = bytes([*file.content[:-1], file.content[-1] ^ 1])
            store.put(f"originals/models/{file.name}", flipped)

    kept = nodes.add(1, 2 << 30, scratch_gb=4)
    lost = nodes.add(1, 2 << 30, scratch_gb=4)
    assert kept is not lost
    began = time.monotonic()
    process = start(plan, _RESULTS, "--executor", "ray", "--address", nodes.address)
    # While the store refuses every request, tasks on both nodes wait for it.
    until(lambda: store.entries("packed") >= _COUNT // 10, process)
    store.refuse_for(3)
    time.sleep(1)
    killed = cluster.kill_busy_worker()
    until(lambda: store.entries("packed") >= _COUNT // 3, process)
    store.refuse_for(3)
    time.sleep(1)
    nodes.kill(lost)
    ended = finish(process)
    seconds = time.monotonic() - began

    summary, last = ended.summary, ended.last()
    assert ended.status == 1, summary
    refused = {repo: event for repo, event in last.items() if event["state"] == "refused"}
    keys = {row["key"]: row for row in rows}
    based_on_changed = {
        row["repo"] for row in rows if any(keys[key]["repo"] in places for key in keys_in(row.get("bases", [])))
    }
    assert set(refused) - places - based_on_changed == {"broken/header", "too/large"}
    assert set(refused) & places
    assert "no machine is large enough" in refused["too/large"]["reason"]
    assert summary["retry"] == summary["left"] == 0
    worked = {event["node"].rpartition("/")[0] for event in ended.events if event.get("node")}
    assert len(worked) == 2, "one node did everything"
    # A task that was running when its node died may still have reported its outcome.
    assert summary["lost"] >= 1, "a worker and a node were killed"
    assert store.refused > 0
    # Only tasks of killed processes are repeated, so every file ends as packed or
    # refused.
    assert {event["state"] for event in last.values()} == {"packed", "refused"}

    # The original file is restored, and the remaining node completes the work.
    put(store, [file for file in files if file.sha256 == original.sha256])
    again = finish(start(plan, _RESULTS, "--executor", "ray", "--address", nodes.address, "--retry-failed"))
    assert again.status == 1
    assert {repo for repo, event in again.last().items() if event["state"] == "refused"} == {
        "broken/header",
        "too/large",
    }
    distinct = len({file.sha256 for file in files})
    assert summary["packed"] + again.summary["packed"] == distinct

    report = json.loads(hub("report", _RESULTS, "--plan", str(plan), "--json").stdout)
    assert report["done_files"] == distinct
    figure(f"{killed} was killed; {summary['lost']} attempts were lost, {store.refused} requests refused")
    saved = report["saved"]
    figure(
        f"{len(files)} files of {sum(len(file.content) for file in files):,} bytes in, "
        f"{report['packed_bytes']:,} out; saved {saved['deduplication']:,} by deduplication, "
        f"{saved['base']:,} by base, {saved['coding']:,} by coding"
    )
    figure(f"{seconds:.1f} s on two nodes, of which one was killed; peak {summary['peak_bytes']:,} bytes")


def test_a_second_run_reads_nothing(store: Store, nodes: cluster.Nodes, work: Path) -> None:
    before = store.read_bytes("originals")
    ended = finish(start(work / "plan.jsonl", _RESULTS, "--executor", "ray", "--address", nodes.address))
    assert ended.summary["packed"] == 0
    assert ended.summary["read_bytes"] == 0
    assert store.read_bytes("originals") - before == 0


def test_new_files_are_the_only_work(store: Store, nodes: cluster.Nodes, work: Path) -> None:
    new = [
        HubFile(f"new/model{index}/model.safetensors", file.content)
        for index, file in enumerate(hub_files(3, seed=99))
    ]
    put(store, new)
    before = store.read_bytes("originals")
    plan = work / "plan2.jsonl"
    rows = make_plan(plan, "--known", str(work / "plan.jsonl"))
    planned = store.read_bytes("originals") - before
    length = sum(len(file.content) for file in new)
    # Planning reads digests, headers and samples for sketches.
    assert length <= planned <= 4 * length
    assert len(rows) == _COUNT + 1 + 3
    before = store.read_bytes("originals")
    ended = finish(start(plan, _RESULTS, "--executor", "ray", "--address", nodes.address))
    assert ended.summary["packed"] == 3
    assert {repo for repo, event in ended.last().items() if event["state"] == "packed"} == {
        "new/model0",
        "new/model1",
        "new/model2",
    }
    # The header may be read twice.
    assert length <= store.read_bytes("originals") - before <= 2 * length


def test_everything_is_restored(store: Store, work: Path) -> None:
    done = hub("restore", _RESULTS, "--plan", str(work / "plan2.jsonl"), "-o", str(work / "restored"))
    # The broken file cannot be restored.
    assert done.returncode == 1 and done.stderr.count("error: ") == 1, done.stderr
    for file in hub_files(_COUNT):
        assert (work / "restored" / file.name).read_bytes() == file.content, file.name


def test_other_executors_write_the_same_bytes(store: Store, work: Path) -> None:
    results = work / "local"
    ended = finish(start(work / "plan2.jsonl", str(results), "--processes", "2"))
    assert ended.status == 1
    names = store.list("packed", "results/packed/")
    assert len(names) > _COUNT / 2
    local = {path.name for path in (results / "packed").iterdir()}
    assert {name.rpartition("/")[2] for name in names} == local
    for name in names:
        assert store.get(f"packed/{name}") == (results / "packed" / name.rpartition("/")[2]).read_bytes()
