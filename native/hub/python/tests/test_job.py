"""Plans, runs and reports of ``python -m zstn_hub`` on one machine."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from gateway import program
from hub_source import command, files, hub, make_plan, run, weights, write

from zstn_hub import job
from zstn_hub.job.executors import Node


def test_model_files_of_other_formats_are_packed(tmp_path: Path) -> None:
    source, store, out = tmp_path / "source", tmp_path / "store", tmp_path / "out"
    write(source, "a/m0/model.safetensors", weights(0, 20_000))
    (source / "a/m0/model.safetensors.index.json").write_text("{}")
    values = weights(1)["a.weight"].astype(np.float32)
    for number in range(2):
        values[number, 0] = 1
        path = source / f"a/m{number}/deep/array.npy"
        path.parent.mkdir(parents=True)
        np.save(path, values)
    rows = make_plan(source, tmp_path / "plan.jsonl", "--base", "auto", "--to", store)
    array = "deep/array.npy"
    assert [row["path"] for row in rows] == [array, "model.safetensors", array]
    # Only safetensors files are stored as deltas.
    assert not any(row.get("bases") for row in rows)
    _, summary = run(tmp_path / "plan.jsonl", source, store)
    assert summary["packed"] == 3
    hub("restore", store, "--plan", tmp_path / "plan.jsonl", "-o", out)
    for row in rows:
        path = Path(row["repo"], row["path"])
        assert (out / path).read_bytes() == (source / path).read_bytes()


def test_a_name_of_another_format_decides_for_no_equal_file(tmp_path: Path) -> None:
    source, store, plan = tmp_path / "source", tmp_path / "store", tmp_path / "plan.jsonl"
    for number in range(2):
        model = source / f"a/m{number}/model.safetensors"
        write(source, f"a/m{number}/model.safetensors", weights(number, 20_000))
        shutil.copy(model, model.with_suffix(".bin"))
    rows = make_plan(source, plan, "--base", "auto", "--to", store)
    assert len({row["key"] for row in rows}) == 4
    assert not any(row.get("bases") for row in rows if row["path"] == "model.bin")
    _, summary = run(plan, source, store, status=1)
    assert (summary["packed"], summary["refused"]) == (2, 2)
    # A content that is known is planned as before under each of its names.
    again = make_plan(source, tmp_path / "again.jsonl", "--known", plan)
    assert [row["key"] for row in again] == [row["key"] for row in rows]


def test_a_plan_is_run_once_whatever_is_run_again(source: Path, tmp_path: Path) -> None:
    plan, store = tmp_path / "plan.jsonl", tmp_path / "store"
    rows = make_plan(source, plan)
    assert [row["repo"] for row in rows] == ["a/m0", "a/m1", "a/m2", "a/m3", "b/bad", "b/copy"]
    for row in rows:
        original = (source / row["repo"] / row["path"]).read_bytes()
        assert row["sha256"] == hashlib.sha256(original).hexdigest()
    assert rows[2]["key"] == rows[5]["key"]
    assert rows[3]["largest_tensor"] == 160_000 and "largest_tensor" not in rows[4]

    _, summary = run(plan, source, store, status=1)
    assert (summary["packed"], summary["refused"], summary["known"]) == (4, 1, 0)
    assert summary["read_bytes"] == sum({row["key"]: row["size"] for row in rows}.values())

    # The second plan cannot read any file.
    moved = source.rename(tmp_path / "moved")
    source.mkdir()
    before = files(store)
    _, summary = run(plan, source, store, status=1)
    assert (summary["packed"], summary["known"], summary["read_bytes"]) == (0, 4, 0)
    assert files(store) == before
    source.rmdir()
    moved.rename(source)

    # Three new files cause three jobs, and the plan does not read other files.
    for number in range(3):
        write(source, f"c/new{number}/model.safetensors", weights(10 + number, 8000))
    later = tmp_path / "later.jsonl"
    _, said = hub("plan", source, "-o", later, "--known", plan)
    new = sum(path.stat().st_size for path in source.glob("c/*/*"))
    assert f"; {new:,} bytes read" in said
    _, summary = run(later, source, store, status=1)
    assert (summary["packed"], summary["known"], summary["read_bytes"]) == (3, 4, new)

    report = json.loads(hub("report", store, "--plan", later, "--json")[0])
    assert report["files"] == 9 and report["unique_files"] == 8 and report["done_files"] == 7
    assert report["packed_bytes"] == sum(map(len, files(store).values()))
    saved = report["saved"]
    failed = report["failed_bytes"]
    assert report["original_bytes"] == report["packed_bytes"] + sum(saved.values()) + failed
    assert saved["deduplication"] == rows[2]["size"] and saved["coding"] > 0 == saved["base"]
    assert [group["class"] for group in report["failed"]] == ["refused"]
    assert report["failed"][0]["example"] == "b/bad/model.safetensors"
    text = hub("report", store, "--plan", later)[0].splitlines()
    assert len({len(line) for line in text[:10]}) == 1 and text[10].startswith("refused: 1 file")

    hub("restore", store, "--plan", later, "-o", tmp_path / "out", status=1)
    for row in rows:
        place = Path(row["repo"], row["path"])
        if row["repo"] != "b/bad":
            assert (tmp_path / "out" / place).read_bytes() == (source / place).read_bytes()
    assert not (tmp_path / "out/b/bad/model.safetensors").exists()


def test_the_largest_files_come_first(source: Path, tmp_path: Path) -> None:
    plan, store = tmp_path / "plan.jsonl", tmp_path / "store"
    sizes = {row["repo"]: row["size"] for row in make_plan(source, plan)}
    # A single process makes the order deterministic.
    outcomes, _ = run(plan, source, store, "--processes", "1", status=1)
    packed = [sizes[outcome["repo"]] for outcome in outcomes if outcome["state"] == "packed"]
    assert len(packed) == 4 and packed == sorted(packed, reverse=True)


def test_refused_files_are_tried_again_on_request(source: Path, tmp_path: Path) -> None:
    plan, store = tmp_path / "plan.jsonl", tmp_path / "store"
    rows = make_plan(source, plan, "--repo", "b/bad")
    assert len(rows) == 1
    outcomes, _ = run(plan, source, store, status=1)
    assert outcomes[0]["state"] == "refused" and outcomes[0]["read_bytes"] > 0
    outcomes, _ = run(plan, source, store, status=1)
    assert outcomes[0]["state"] == "refused" and outcomes[0]["read_bytes"] == 0
    outcomes, _ = run(plan, source, store, "--retry-failed", status=1)
    assert outcomes[0]["read_bytes"] > 0


def test_a_file_that_changed_since_the_plan_is_refused(source: Path, tmp_path: Path) -> None:
    plan, store = tmp_path / "plan.jsonl", tmp_path / "store"
    make_plan(source, plan, "--repo", "a/m0")
    write(source, "a/m0/model.safetensors", weights(99, 20_000))
    outcomes, _ = run(plan, source, store, status=1)
    assert "has changed since it was listed" in outcomes[0]["reason"]
    assert outcomes[0]["reason"].endswith("plan again")
    assert not files(store)


def test_what_no_machine_holds_is_refused_before_it_is_begun(source: Path, tmp_path: Path) -> None:
    plan, store = tmp_path / "plan.jsonl", tmp_path / "store"
    rows = make_plan(source, plan)
    rows[0]["largest_tensor"] = 1 << 40
    plan.write_text("".join(json.dumps(row) + "\n" for row in rows))
    outcomes, summary = run(plan, source, store, "--memory", "512M", status=1)
    refused = [outcome for outcome in outcomes if outcome["repo"] == "a/m0"]
    assert "no machine is large enough: it needs 1120 MiB of memory" in refused[0]["reason"]
    assert outcomes[0] == refused[0] and summary["packed"] == 3
    entry = json.loads((store / "failed" / f"{rows[0]['key']}.json").read_text())
    assert entry["class"] == "refused" and entry["reason"] == refused[0]["reason"]
    _, summary = run(plan, source, store, "--retry-failed", status=1)
    assert summary["packed"] == 1


def test_shares_and_the_worker_finish_each_other(
    source: Path, tmp_path: Path, hub_server: str
) -> None:
    plan = tmp_path / "plan.jsonl"
    make_plan(source, plan, "--repo", "a/m0", "--repo", "a/m1", "--repo", "a/m2", "--repo", "a/m3")
    whole, shares = tmp_path / "whole", tmp_path / "shares"
    run(plan, source, whole)
    _, first = run(plan, source, shares, "--shard", "0/3")
    assert first["packed"] == 2
    worker = [
        *(program(), "worker", "--plan", str(plan), "--to", str(shares), "--json"),
        *("--endpoint", hub_server, "--shard"),
    ]
    done = subprocess.run([*worker, "1/3"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["packed"] == 1
    _, last = run(plan, source, shares)
    assert (last["packed"], last["known"]) == (1, 3)
    assert files(shares) == files(whole)
    done = subprocess.run([*worker, "0/1"], capture_output=True, text=True)
    assert json.loads(done.stdout.splitlines()[-1])["known"] == 4


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_work_is_given_back(tmp_path: Path, scratch: Path, number: signal.Signals) -> None:
    source, plan, store = tmp_path / "source", tmp_path / "plan.jsonl", tmp_path / "store"
    # More files than a busy machine packs before it sends the signal.
    count = 16
    for index in range(count):
        write(source, f"a/m{index}/model.safetensors", weights(index, 1_000_000))
    make_plan(source, plan)
    running = subprocess.Popen(
        command("run", plan, "--from", source, "--to", store, "--json", "--processes", "1",
                "--effort", "balanced"),
        stdout=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    assert running.stdout
    first = json.loads(running.stdout.readline())
    assert first["state"] == "packed"
    running.send_signal(number)
    output, _ = running.communicate(timeout=60)
    if number == signal.SIGKILL:
        assert running.returncode == -number
    else:
        assert running.returncode == 3
        summary = json.loads(output.splitlines()[-1])
        assert summary["left"] == count - summary["packed"] >= 1 and summary["retry"] == 0
        # There are no partially written files and no failures. The signal may arrive
        # between the storage of a file and that of its entry; the next run then packs the
        # file again.
        done = len(list((store / "done").iterdir()))
        assert done == summary["packed"]
        assert done <= len(files(store)) <= done + 1
        assert not list((store / "failed").iterdir())
    _, summary = run(plan, source, store)
    assert summary["packed"] + summary["known"] == count and summary["known"] >= 1
    assert not [name for name in files(store) if not name.endswith(".zstn")]
    left = [path for path in scratch.rglob("*") if path.is_file() and path.name != "lock"]
    assert not left


class Interrupted:
    """An executor whose process is interrupted between recording a result and reporting
    it."""

    def __init__(self) -> None:
        self.tasks: list[job.Task] = []
        self.stop_run = lambda: None

    def capacity(self) -> list[Node]:
        return [Node("here", 1 << 40, None, 1)]

    def slots(self) -> int:
        return 2

    def submit(self, task: job.Task) -> None:
        self.tasks.append(task)

    def wait(self, timeout: float) -> list[job.Outcome]:
        self.stop_run()
        return []

    def stop(self, grace: float) -> list[job.Outcome]:
        job.work(self.tasks[0].to_dict())
        return [job.Outcome(task.key, "given_back") for task in self.tasks]

    def close(self) -> None:
        pass


@pytest.mark.parametrize("is_refused", [False, True])
def test_a_result_recorded_before_an_interrupt_counts(tmp_path: Path, is_refused: bool) -> None:
    source, plan, store = tmp_path / "source", tmp_path / "plan.jsonl", tmp_path / "store"
    for index in range(2):
        write(source, f"a/m{index}/model.safetensors", weights(index, 1_000 * (2 - index)))
    rows = [job.Row.from_dict(row) for row in make_plan(source, plan)]
    if is_refused:
        for path in source.rglob("*.safetensors"):
            path.write_bytes(bytes(path.stat().st_size))
    executor = Interrupted()
    run = job.Run(rows, executor, job.Settings(str(source), str(store)))
    executor.stop_run = run.stop
    summary = run.run()
    recorded = list((store / ("failed" if is_refused else "done")).iterdir())
    assert len(recorded) == 1
    expected = (0, 1, 1) if is_refused else (1, 0, 1)
    assert (summary.packed, summary.refused, summary.left) == expected


def test_a_killed_process_is_replaced(tmp_path: Path) -> None:
    source, plan, store = tmp_path / "source", tmp_path / "plan.jsonl", tmp_path / "store"
    for index in range(4):
        write(source, f"a/m{index}/model.safetensors", weights(index, 1_000_000))
    rows = [job.Row.from_dict(row) for row in make_plan(source, plan)]
    from zstn_hub.job.executors.local import LocalExecutor

    executor = LocalExecutor(processes=1)
    settings = job.Settings(str(source), str(store), first_wait=0.1)
    killed: list[str] = []

    def watch(row: job.Row, outcome: job.Outcome, _: job.Summary) -> None:
        if not killed:
            # The process is working on the task that it was just given.
            process, task = next(iter(executor._busy.values()))
            killed.append(task.key)
            process.kill()

    summary = job.Run(rows, executor, settings, watch).run()
    assert (summary.packed, summary.lost, summary.status) == (4, 1, 0)
    assert killed[0] in {row.key for row in rows}


def test_garbage_is_what_no_plan_names(source: Path, tmp_path: Path) -> None:
    plan, few, store = tmp_path / "plan.jsonl", tmp_path / "few.jsonl", tmp_path / "store"
    rows = make_plan(source, plan)
    run(plan, source, store, status=1)
    make_plan(source, few, "--repo", "a/m0", "--repo", "b/copy")
    (store / "packed/.x.part").write_bytes(b"12")
    old = store / "packed/.old.part"
    old.write_bytes(b"123")
    day_ago = time.time() - 25 * 3600
    os.utime(old, (day_ago, day_ago))
    before = files(store)
    found = json.loads(hub("gc", store, "--plan", few, "--json")[0])
    assert files(store) == before and found["deleted"] is False
    kept = {rows[0]["key"], rows[2]["key"]}
    gone = {name for name in before if name.endswith(".zstn") and name[:64] not in kept}
    assert set(found["packed"]) == gone and len(gone) == 2
    assert found["unfinished"] == {"packed/.old.part": 3}
    assert not hub("gc", store, "--plan", few, "--plan", plan)[0].startswith("packed/" + "0")
    hub("gc", store, "--plan", few, "--delete")
    assert set(files(store)) == set(before) - gone - {".old.part"}
    assert {path.stem for path in (store / "done").iterdir()} == kept
    assert not list((store / "failed").iterdir())
    # The remaining files can be restored.
    restored, _ = hub("restore", store, "--plan", few, "-o", tmp_path / "out")
    assert restored == f"restored 2 of 2 files to {tmp_path / 'out'}\n"
    shutil.rmtree(tmp_path / "out")


def test_every_json_key_is_documented(source: Path, tmp_path: Path) -> None:
    plan, store = tmp_path / "plan.jsonl", tmp_path / "store"
    make_plan(source, plan)
    outcomes, summary = run(plan, source, store, status=1)
    found: set[str] = set()
    report = json.loads(hub("report", store, "--plan", plan, "--json")[0])
    garbage = json.loads(hub("gc", store, "--plan", plan, "--json")[0])
    next((store / "packed").iterdir()).write_bytes(b"damaged")
    checked = json.loads(hub("check", store, "--plan", plan, "--json", status=1)[0])
    assert checked["damaged"]
    for values in [
        *outcomes, summary, report, report["saved"], *report["failed"], garbage, checked,
        *checked["damaged"],
    ]:  # fmt: skip
        found |= values.keys()
    text = (Path(__file__).parents[4] / "docs/json.md").read_text(encoding="utf-8")
    table = text.split("\n## A whole hub\n")[1].split("\n## ")[0]
    cells = re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
    assert found == {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
