"""``python -m zstn_hub plan --base auto``, which stores files as deltas from others."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
from gateway import program
from hub_source import files, hub, make_plan, run, tuned, weights, write


def test_families_are_stored_as_differences(families: Path, tmp_path: Path) -> None:
    plan, store = tmp_path / "plan.jsonl", tmp_path / "store"
    rows = make_plan(families, plan, "--base", "auto", "--to", store)
    by_repo = {row["repo"]: row for row in rows}
    assert "bases" not in by_repo["x/alone"]
    for family in range(2):
        own = [row for row in rows if row["repo"].startswith(f"f{family}/")]
        roots = [row for row in own if "bases" not in row]
        assert len(roots) == 1 and len(own) == 4
        assert all(row["bases"] == [roots[0]["key"]] for row in own if row is not roots[0])
    assert len(list((store / "sketches").iterdir())) == 9

    outcomes, summary = run(plan, families, store)
    assert summary["packed"] == 9
    ended = [outcome["key"] for outcome in outcomes]
    for row in rows:
        for base in row.get("bases", ()):
            assert ended.index(base) < ended.index(row["key"])
    assert sum(name.endswith(".z4dm") for name in files(store)) == 6
    for row in rows:
        done = json.loads((store / "done" / f"{row['key']}.json").read_text())
        assert done.get("bases") == row.get("bases")
    report = json.loads(hub("report", store, "--plan", plan, "--json")[0])
    assert report["differences"] == 6
    saved = report["saved"]
    differences = sum(row["size"] for row in rows if "bases" in row)
    assert saved["base"] > 0.7 * differences
    assert report["original_bytes"] == report["packed_bytes"] + sum(saved.values())

    # Shares keep families together, and yield the same files.
    shares = tmp_path / "shares"
    for share in ("0/2", "1/2"):
        _, summary = run(plan, families, shares, "--shard", share)
        assert summary["packed"] >= 1
    assert files(shares) == files(store)

    hub("restore", store, "--plan", plan, "-o", tmp_path / "out")
    for row in rows:
        place = Path(row["repo"], row["path"])
        assert (tmp_path / "out" / place).read_bytes() == (families / place).read_bytes()

    # A base is kept as long as a delta needs it.
    few = tmp_path / "few.jsonl"
    child = next(row for row in rows if "bases" in row)
    few.write_text(json.dumps(child) + "\n")
    found = json.loads(hub("gc", store, "--plan", few, "--json", "--delete")[0])
    base = f"{child['bases'][0]}.zstn"
    assert found["needed"] == {base: 1} and len(found["packed"]) == 7
    assert set(files(store)) == {base, f"{child['key']}.z4dm"}
    hub("restore", store, "--plan", few, "-o", tmp_path / "again")


def test_the_worker_finishes_families(
    families: Path, tmp_path: Path, hub_server: str
) -> None:
    plan, whole, store = tmp_path / "plan.jsonl", tmp_path / "whole", tmp_path / "store"
    make_plan(families, plan, "--base", "auto", "--to", store)
    run(plan, families, whole)
    run(plan, families, store, "--shard", "1/4")
    worker = [program(), "worker", "--plan", plan, "--to", store, "--endpoint", hub_server]
    done = subprocess.run(worker, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert files(store) == files(whole)


def test_new_members_keep_what_was_planned(families: Path, tmp_path: Path) -> None:
    plan, store = tmp_path / "plan.jsonl", tmp_path / "store"
    rows = make_plan(families, plan, "--base", "auto", "--to", store)
    write(families, "a/new/model.safetensors", tuned(weights(0, 60_000), 77))
    later = tmp_path / "later.jsonl"
    options = ["--base", "auto", "--to", str(store), "--known", str(plan)]
    again = make_plan(families, later, *options)
    assert [row for row in again if row["repo"] != "a/new"] == rows
    new = again[0]
    root = next(row for row in rows if row["repo"].startswith("f0/") and "bases" not in row)
    assert new["repo"] == "a/new" and new["bases"] == [root["key"]]


def test_a_grown_vocabulary_has_the_base_of_its_family(families: Path, tmp_path: Path) -> None:
    grown = tuned(weights(0, 60_000), 5)
    grown["b.weight"] = np.concatenate([grown["b.weight"], grown["b.weight"][:20]])
    write(families, "f0/grown/model.safetensors", {f"model.{key}": grown[key] for key in grown})
    plan, store = tmp_path / "plan.jsonl", tmp_path / "store"
    rows = make_plan(families, plan, "--extended", "--base", "auto", "--to", store)
    own = [row for row in rows if row["repo"].startswith("f0/")]
    root = next(row for row in own if "bases" not in row)
    assert len(own) == 5
    assert all(row["bases"] == [root["key"]] for row in own if row is not root)
    run(plan, families, store, "--extended")
    report = json.loads(hub("report", store, "--plan", plan, "--json")[0])
    assert report["differences"] == 7
    hub("restore", store, "--plan", plan, "-o", tmp_path / "out")
    place = Path("f0/grown/model.safetensors")
    assert (tmp_path / "out" / place).read_bytes() == (families / place).read_bytes()


def test_a_difference_from_a_refused_base_is_refused(families: Path, tmp_path: Path) -> None:
    plan, store = tmp_path / "plan.jsonl", tmp_path / "store"
    rows = make_plan(families, plan, "--base", "auto", "--to", store)
    root = next(row for row in rows if "bases" not in row and row["repo"].startswith("f0"))
    write(families, f"{root['repo']}/{root['path']}", weights(50, 60_000))
    outcomes, summary = run(plan, families, store, status=1)
    assert (summary["packed"], summary["refused"]) == (5, 4)
    reasons = {o["reason"] for o in outcomes if o["state"] == "refused" and o["key"] != root["key"]}
    assert len(reasons) == 1 and "make the plan again for another base" in reasons.pop()
    # The new plan chooses another base.
    again = make_plan(families, tmp_path / "again.jsonl", "--base", "auto", "--to", store)
    _, summary = run(tmp_path / "again.jsonl", families, store)
    assert len(again) == 9 and summary["left"] == summary["refused"] == 0
