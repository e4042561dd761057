"""``python -m zstn_hub`` after files have been lost: it reports only files that exist.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hub_source import files, make_plan, run, weights, write

from zstn_hub.__main__ import main
from zstn_hub.job import _work
from zstn_hub.job._restore import base_paths
from zstn_hub.job._task import Limits, Task


def hub(*arguments: str | Path, status: int = 0) -> tuple[str, str]:
    """Runs a command in this process, and returns its standard output and its messages.
    """
    out, said = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(said):
        found = main([str(argument) for argument in arguments])
    assert found == status, out.getvalue() + said.getvalue()
    return out.getvalue(), said.getvalue()


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("lose", [Path.unlink, cut, flip])
def test_a_lost_result_is_reported_and_made_again(
    tmp_path: Path, lose: Callable[[Path], None]
) -> None:
    source, plan, store = tmp_path / "source", tmp_path / "plan.jsonl", tmp_path / "store"
    for number in range(2):
        write(source, f"o/m{number}/model.safetensors", weights(number, 4_000))
    rows = make_plan(source, plan)
    run(plan, source, store)
    whole = files(store)
    assert "2 packed files are as recorded" in hub("check", store, "--plan", plan)[0]
    lost = rows[0]
    lose(store / "packed" / f"{lost['key']}.zstn")

    # A flipped bit is only found when the file is read.
    status = 0 if lose is flip else 1
    report = json.loads(hub("report", store, "--plan", plan, "--json", status=status)[0])
    assert (report["done_files"], report["lost_files"]) == (2 - status, status)
    said = hub("check", store, "--plan", plan, status=1)[0]
    assert said.startswith("damaged: o/m0/model.safetensors: packed/")
    _, said = hub("restore", store, "--plan", plan, "-o", tmp_path / "out", status=1)
    assert said.startswith("error: o/m0/model.safetensors: ")
    # The other file is restored.
    assert (tmp_path / "out/o/m1/model.safetensors").exists()

    hub("check", store, "--plan", plan, "--repair", status=1)
    damaged = store / "packed" / f"{lost['key']}.zstn"
    # A damaged file remains until there is a better one.
    assert damaged.exists() == (lose is not Path.unlink)
    _, summary = run(plan, source, store)
    assert (summary["packed"], summary["known"]) == (1, 1)
    assert files(store) == whole
    hub("check", store, "--plan", plan)
    hub("restore", store, "--plan", plan, "-o", tmp_path / "out")


def test_a_run_alone_makes_a_missing_result_again(families: Path, tmp_path: Path) -> None:
    plan, store = tmp_path / "plan.jsonl", tmp_path / "store"
    rows = make_plan(families, plan, "--base", "auto", "--to", store)
    run(plan, families, store)
    whole = files(store)
    base = next(row["bases"][0] for row in rows if "bases" in row)
    child = next(row for row in rows if row.get("bases") == [base])
    for name in (f"{base}.zstn", f"{child['key']}.z4dm"):
        (store / "packed" / name).unlink()
    _, summary = run(plan, families, store)
    assert summary["packed"] == 2 and files(store) == whole


def test_a_run_with_check_packs_damaged_files_again(tmp_path: Path) -> None:
    source, plan, store = tmp_path / "source", tmp_path / "plan.jsonl", tmp_path / "store"
    for number in range(2):
        write(source, f"o/m{number}/model.safetensors", weights(number, 4_000))
    rows = make_plan(source, plan)
    _, summary = run(plan, source, store, "--check")
    assert summary["packed"] == 2
    whole = files(store)
    flip(store / "packed" / f"{rows[1]['key']}.zstn")
    _, summary = run(plan, source, store)
    assert summary["known"] == 2
    _, summary = run(plan, source, store, "--check")
    assert (summary["packed"], summary["known"]) == (1, 1) and files(store) == whole


def with_base(rows: list[dict[str, Any]]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Returns a row that is a base, and the rows of its deltas."""
    key = next(row["bases"][0] for row in rows if "bases" in row)
    base = next(row for row in rows if row["key"] == key)
    return base, [row for row in rows if row.get("bases") == [key]]


def place(row: dict[str, Any]) -> str:
    return f"{row['repo']}/{row['path']}"


def test_a_delta_is_lost_with_its_base(families: Path, tmp_path: Path) -> None:
    plan, store = tmp_path / "plan.jsonl", tmp_path / "store"
    rows = make_plan(families, plan, "--base", "auto", "--to", store)
    run(plan, families, store)
    whole = files(store)
    base, deltas = with_base(rows)
    (store / "packed" / f"{base['key']}.zstn").unlink()
    report = json.loads(hub("report", store, "--plan", plan, "--json", status=1)[0])
    assert report["lost"].keys() == {place(row) for row in [base, *deltas]}
    assert place(base) in report["lost"][place(deltas[0])]
    said, _ = hub("check", store, "--plan", plan, status=1)
    assert said.count("damaged: ") == 1 and f"damaged: {place(base)}: " in said
    only = ["--only", deltas[0]["repo"]]
    _, said = hub("restore", store, "--plan", plan, "-o", tmp_path / "out", *only, status=1)
    assert said.startswith(f"error: {place(deltas[0])}: ") and place(base) in said

    # A plan without the base cannot repair it.
    other = tmp_path / "other.jsonl"
    other.write_text("".join(json.dumps(row) + "\n" for row in deltas))
    said, _ = hub("check", store, "--plan", other, "--repair", status=1)
    assert f"damaged: {place(base)}: " in said and "in none of these plans" in said
    outcomes, summary = run(other, families, store, status=1)
    assert summary["refused"] == len(deltas) and place(base) in outcomes[0]["reason"]

    _, summary = run(plan, families, store)
    assert (summary["packed"], summary["known"]) == (1, len(rows) - 1)
    run(other, families, store)
    assert files(store) == whole


def with_damaged_base(
    families: Path, plan: Path, store: Path
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Makes a plan, packs one of its bases and damages it. Returns the base's row, and the
    rows of its deltas, which are not packed."""
    first = plan.with_name("first.jsonl")
    rows = make_plan(families, plan, "--base", "auto", "--to", store)
    base, deltas = with_base(rows)
    first.write_text(json.dumps(base) + "\n")
    run(first, families, store)
    flip(store / "packed" / f"{base['key']}.zstn")
    return base, deltas


def test_a_damaged_base_is_packed_again_for_its_deltas(families: Path, tmp_path: Path) -> None:
    plan, store = tmp_path / "plan.jsonl", tmp_path / "store"
    base, deltas = with_damaged_base(families, plan, store)
    outcomes, summary = run(plan, families, store, "--attempts", "1", status=3)
    assert (summary["retry"], summary["refused"]) == (len(deltas), 0)
    reasons = [one["reason"] for one in outcomes if one["state"] == "retry"]
    assert all(place(base) in reason for reason in reasons), reasons
    run(plan, families, store)
    hub("check", store, "--plan", plan)
    hub("restore", store, "--plan", plan, "-o", tmp_path / "out")


def test_a_delta_is_tried_again_after_another_removed_the_entry_of_its_damaged_base(
    families: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "store"
    base, deltas = with_damaged_base(families, tmp_path / "plan.jsonl", store)

    def then_removed(*arguments: Any) -> list[Path]:
        paths = base_paths(*arguments)
        (store / "done" / f"{base['key']}.json").unlink()
        return paths

    monkeypatch.setattr(_work, "base_paths", then_removed)
    task = Task(deltas[0], str(families), str(store), "balanced", False, Limits(1 << 30, 1 << 30))
    outcome = _work.work(task.to_dict())
    assert outcome["state"] == "retry" and base["key"] in outcome["reason"], outcome


def test_a_store_that_is_not_there(tmp_path: Path, source: Path) -> None:
    plan, store = tmp_path / "plan.jsonl", tmp_path / "nothing"
    make_plan(source, plan)
    for verb in ("report", "check", "gc", "restore"):
        more = ["-o", tmp_path / "out"] if verb == "restore" else []
        _, said = hub(verb, store, "--plan", plan, *more, status=1)
        assert "there are no results in" in said and str(store) in said
    assert not store.exists() and not (tmp_path / "out").exists()


def test_nothing_is_saved_by_what_is_not_packed(tmp_path: Path, source: Path) -> None:
    plan, store = tmp_path / "plan.jsonl", tmp_path / "store"
    make_plan(source, plan)
    for folder in ("done", "failed", "packed"):
        (store / folder).mkdir(parents=True)
    report = json.loads(hub("report", store, "--plan", plan, "--json")[0])
    assert set(report["saved"].values()) == {0} and report["left_files"] == 5


def test_a_run_that_cannot_begin_has_a_status_of_its_own(tmp_path: Path, source: Path) -> None:
    plan, store = tmp_path / "plan.jsonl", tmp_path / "store"
    make_plan(source, plan)
    empty = tmp_path / "empty.jsonl"
    empty.write_text("")
    for arguments in (
        ["nothing.jsonl", "--from", source],
        [plan, "--from", tmp_path / "nothing"],
        [plan, "--from", plan],
        [empty, "--from", source],
        [plan, "--from", source, "--effort", "max"],
    ):
        out, said = hub("run", *arguments, "--to", store, status=2)
        assert not out and said.startswith("error: ") and said.count("\n") == 1
    assert not store.exists()


def test_a_plan_of_nothing_is_a_mistake(tmp_path: Path, source: Path) -> None:
    plan = tmp_path / "plan.jsonl"
    for folder, expected in (
        (source / "a", "name the folder that contains the owners"),
        (source / "a/m0", "name the folder that contains the owners"),
        (tmp_path / "tmp", "has no model files (such as .safetensors and .gguf) OWNER/NAME/PATH"),
    ):
        _, said = hub("plan", folder, "-o", plan, status=1)
        assert expected in said and not plan.exists()
    _, said = hub("plan", source, "-o", plan, "--repo", "a/nothing", status=1)
    assert "a/nothing" in said


def test_garbage_needs_a_plan_with_files(tmp_path: Path, source: Path) -> None:
    plan, empty, store = tmp_path / "plan.jsonl", tmp_path / "empty.jsonl", tmp_path / "store"
    make_plan(source, plan)
    run(plan, source, store, status=1)
    empty.write_text("")
    before = files(store)
    hub("gc", store, "--plan", empty, "--delete", status=1)
    assert files(store) == before


@pytest.mark.skipif(os.name != "posix", reason="links and pipes")
def test_links_out_of_a_source_and_pipes_are_left_out(tmp_path: Path) -> None:
    source, plan = tmp_path / "source", tmp_path / "plan.jsonl"
    inside = write(source, "o/n/model.safetensors", weights(1, 4_000))
    outside = write(tmp_path, "outside/x/model.safetensors", weights(2, 4_000))
    (source / "o/n/link.safetensors").symlink_to(outside)
    (source / "o/n/nowhere.safetensors").symlink_to("nothing")
    (source / "o/n/same.safetensors").symlink_to(inside)
    (source / "o/linked").symlink_to(outside.parent)
    os.mkfifo(source / "o/n/pipe.safetensors")
    _, said = hub("plan", source, "-o", plan)
    rows = [json.loads(line) for line in plan.read_text().splitlines()]
    assert [row["path"] for row in rows] == ["model.safetensors", "same.safetensors"]
    for name in ("n/link", "n/nowhere", "n/pipe", "linked/model"):
        assert f"left out: o/{name}.safetensors: " in said, said
    # A file may be replaced by a pipe after the plan was made.
    inside.unlink()
    os.mkfifo(inside)
    outcomes, summary = run(plan, source, tmp_path / "store", "--attempts", "1", status=1)
    assert summary["refused"] == 1 and "not a regular file" in outcomes[0]["reason"]


def test_restore_replaces_no_other_file(tmp_path: Path, source: Path) -> None:
    plan, store = tmp_path / "plan.jsonl", tmp_path / "store"
    make_plan(source, plan, "--repo", "a/m0")
    run(plan, source, store)
    path = source / "a/m0/model.safetensors"
    before = path.read_bytes()
    hub("restore", store, "--plan", plan, "-o", source)
    path.write_bytes(b"changed")
    _, said = hub("restore", store, "--plan", plan, "-o", source, status=1)
    assert "already exists with other bytes" in said and path.read_bytes() == b"changed"
    path.unlink()
    hub("restore", store, "--plan", plan, "-o", source)
    assert path.read_bytes() == before


def test_a_missing_original_counts_no_bytes(tmp_path: Path, source: Path) -> None:
    plan, store = tmp_path / "plan.jsonl", tmp_path / "store"
    make_plan(source, plan, "--repo", "a/m0")
    (source / "a/m0/model.safetensors").unlink()
    outcomes, summary = run(plan, source, store, status=1)
    assert summary["read_bytes"] == 0 and outcomes[0]["state"] == "refused"
    assert "was removed after it was listed" in outcomes[0]["reason"]
