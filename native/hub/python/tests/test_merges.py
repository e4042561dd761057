"""``python -m zstn_hub plan --base auto`` on a hub with a merged model, which is stored as a
delta from all models that it was merged from."""

from __future__ import annotations

import json
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from gateway import Gateway, program
from hub_source import files, hub, make_plan, run, weights, write

Rows = dict[str, dict[str, Any]]


def moved(base: dict[str, np.ndarray], seed: int) -> dict[str, np.ndarray]:
    """Returns a fine-tune whose weights have all moved by about 2 %."""
    random = np.random.default_rng(seed)
    return {
        name: (values * (1 + 0.02 * random.standard_normal(values.shape))).astype(values.dtype)
        for name, values in base.items()
    }


def merged(*sources: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns the mean of models."""
    return {
        name: sum(source[name].astype(np.float32) / len(sources) for source in sources).astype(
            ml_dtypes.bfloat16
        )
        for name in sources[0]
    }


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A source with a base, two fine-tunes of it, a merge of these, and an unrelated file.
    The merge is listed first."""
    folder = tmp_path / "source"
    base = weights(0, 60_000)
    base |= {f"{n}.weight": weights(10 + n, 20_000)["a.weight"] for n in range(4)}
    tuned = {"code": moved(base, 1), "math": moved(base, 2)}
    for name, tensors in {"base": base, **tuned, "alone": weights(9, 60_000)}.items():
        write(folder, f"me/{name}/model.safetensors", tensors)
    write(folder, "a/merge/model.safetensors", merged(*tuned.values()))
    return folder


def planned(source: Path, plan: Path, store: Path, *more: str) -> Rows:
    """Makes a plan, and returns its rows by the names of the models."""
    rows = make_plan(source, plan, "--base", "auto", "--to", store, *more)
    return {row["repo"].split("/")[1]: row for row in rows}


def place(row: dict[str, Any]) -> Path:
    return Path(row["repo"], row["path"])


def test_a_merge_is_stored_as_a_delta_from_its_sources(source: Path, tmp_path: Path) -> None:
    plan, store, out = tmp_path / "plan.jsonl", tmp_path / "store", tmp_path / "out"
    rows = planned(source, plan, store)
    base, merge = rows["base"]["key"], rows["merge"]
    assert rows["code"]["bases"] == rows["math"]["bases"] == [base]
    sources = [[rows[name]["key"], base] for name in ("code", "math")]
    assert sorted(merge["bases"]) == sorted(sources)

    # Sources are packed first, in whichever order the files are listed.
    outcomes, summary = run(plan, source, store)
    assert summary["packed"] == 5 and outcomes[-1]["key"] == merge["key"]
    assert outcomes[-1]["packed_bytes"] < merge["size"] / 20
    assert outcomes[-1]["packed_bytes"] == (store / f"packed/{merge['key']}.z4dm").stat().st_size
    hub("check", store, "--plan", plan)
    hub("restore", store, "--plan", plan, "-o", out)
    for row in rows.values():
        assert (out / place(row)).read_bytes() == (source / place(row)).read_bytes()
    report = json.loads(hub("report", store, "--plan", plan, "--json")[0])
    assert report["differences"] == 3
    assert report["original_bytes"] == report["packed_bytes"] + sum(report["saved"].values())

    # All of its files are in one share.
    shares = tmp_path / "shares"
    counts = [run(plan, source, shares, "--shard", f"{n}/2")[1]["packed"] for n in (0, 1)]
    assert sorted(counts) == [1, 4] and files(shares) == files(store)

    # The files that it needs are kept.
    few = tmp_path / "few.jsonl"
    few.write_text(json.dumps(merge) + "\n")
    found = json.loads(hub("gc", store, "--plan", few, "--json", "--delete")[0])
    needed = {f"{base}.zstn", *(f"{key}.z4dm" for key, _ in sources)}
    assert found["needed"] == dict.fromkeys(needed, 1)
    assert set(files(store)) == {*needed, f"{merge['key']}.z4dm"}
    hub("restore", store, "--plan", few, "-o", tmp_path / "again")


def test_a_new_merge_has_sources_that_were_planned_before(source: Path, tmp_path: Path) -> None:
    first, later, store = tmp_path / "first.jsonl", tmp_path / "later.jsonl", tmp_path / "store"
    merge = source / "a/merge/model.safetensors"
    new = merge.read_bytes()
    merge.unlink()
    before = planned(source, first, store)
    merge.write_bytes(new)
    rows = planned(source, later, store, "--known", str(first))
    sources = [[rows[name]["key"], rows["base"]["key"]] for name in ("code", "math")]
    assert sorted(rows.pop("merge")["bases"]) == sorted(sources) and rows == before


def test_a_worker_packs_a_merge_and_a_gateway_restores_it(
    source: Path, tmp_path: Path, hub_server: str
) -> None:
    plan, whole, store = tmp_path / "plan.jsonl", tmp_path / "whole", tmp_path / "store"
    rows = planned(source, plan, store)
    run(plan, source, whole)
    worker = [program(), "worker", "--plan", plan, "--to", store, "--endpoint", hub_server]
    done = subprocess.run(worker, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert files(store) == files(whole)
    gateway = Gateway(store, "--plan", plan)
    try:
        url = f"{gateway.endpoint}/{rows['merge']['repo']}/resolve/main/model.safetensors"
        with urllib.request.urlopen(url) as answer:
            assert answer.read() == (source / place(rows["merge"])).read_bytes()
    finally:
        gateway.close()


def test_a_merge_is_tried_again_after_a_source_was_lost_or_damaged(
    source: Path, tmp_path: Path
) -> None:
    plan, rest, store = tmp_path / "plan.jsonl", tmp_path / "rest.jsonl", tmp_path / "store"
    rows = planned(source, plan, store)
    merge = rows.pop("merge")
    rest.write_text("".join(json.dumps(row) + "\n" for row in rows.values()))
    run(rest, source, store)
    whole = files(store)
    code = store / f"packed/{rows['code']['key']}.z4dm"
    code.write_bytes(code.read_bytes()[:-100] + bytes(100))
    # A plan without the other files gives the entry of the damaged one up.
    alone = tmp_path / "alone.jsonl"
    alone.write_text(json.dumps(merge) + "\n")
    outcomes, _ = run(alone, source, store, "--attempts", "1", status=3)
    assert outcomes[-1]["state"] == "retry" and "me/code" in outcomes[-1]["reason"]
    outcomes, summary = run(plan, source, store)
    assert (summary["packed"], summary["known"]) == (2, 3)
    assert outcomes[-1]["key"] == merge["key"]

    # A packed merge is lost with any file that it needs.
    (store / f"packed/{rows['base']['key']}.zstn").unlink()
    report = json.loads(hub("report", store, "--plan", plan, "--json", status=1)[0])
    lost = {f"me/{name}/model.safetensors" for name in ("base", "code", "math")}
    assert report["lost"].keys() == {*lost, "a/merge/model.safetensors"}
    run(plan, source, store)
    hub("restore", store, "--plan", plan, "-o", tmp_path / "out")
    del (found := files(store))[f"{merge['key']}.z4dm"]
    assert found == whole


def test_bad_trees_of_bases_are_refused(source: Path, tmp_path: Path) -> None:
    plan, store = tmp_path / "plan.jsonl", tmp_path / "store"
    rows = planned(source, plan, store)
    keys = [row["key"] for row in rows.values()]
    base, merge = rows["base"], rows["merge"]
    deep: list[Any] = [keys[0]]
    for _ in range(500):
        deep = [deep]
    for bases, message in [
        ([[key] for key in keys], "at most 4"),
        ([keys[0], [keys[1], keys[2]], [keys[3], keys[4]]], "at most 4"),
        ([[keys[0]], keys[1]], "bases has to be"),
        ([[], [keys[0]]], "bases has to be"),
        ([["../x"], [keys[0]]], "bases has to be"),
        (deep, "line 2"),
        # The base cannot need the merge that needs the base.
        ([merge["key"]], "other bases"),
        ([base["key"]], "other bases"),
    ]:
        bad = tmp_path / "bad.jsonl"
        lines = [json.dumps(row) + "\n" for row in (merge, {**base, "bases": bases})]
        bad.write_text("".join(lines))
        _, said = hub("report", store, "--plan", bad, status=1)
        assert f"{bad}, line 2: " in said and message in said, said
        done = subprocess.run(
            [program(), "gateway", "--upstream", store, "--plan", bad, "--port", "0"],
            capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert done.returncode != 0 and message in done.stderr
        # Keys are computed from the bases, so that a run accepts no cycle either.
        assert hub("run", bad, "--from", source, "--to", store, status=2)[1].startswith("error: ")
    # Two plans that contradict each other are refused together.
    one, other = tmp_path / "one.jsonl", tmp_path / "other.jsonl"
    one.write_text(json.dumps(merge) + "\n")
    other.write_text(json.dumps({**base, "bases": [merge["key"]]}) + "\n")
    plans = ["--plan", one, "--plan", other]
    done = subprocess.run(
        [program(), "gateway", "--upstream", store, *plans, "--port", "0"],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode != 0 and "other bases" in done.stderr
