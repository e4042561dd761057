"""The simulation of a job on a whole hub, in cases with known results."""

from __future__ import annotations

import argparse
import json
import math
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from zstn_hub.simulation import (
    Census,
    Cluster,
    Failures,
    Settings,
    Speeds,
    Store,
    Work,
    command,
    estimate,
    knee,
    simulate,
    work_of,
)
from zstn_hub.simulation._measured import fit, read_measured
from zstn_hub.simulation.command import names, with_values

_INF = math.inf

#: A store that takes no time, so that only processors do.
_FREE_STORE = Store(
    read_bytes_per_second=_INF,
    write_bytes_per_second=_INF,
    reads_per_second=_INF,
    writes_per_second=_INF,
    latency=0,
    stream_bytes_per_second=_INF,
)
_SPEEDS = Speeds(
    pack=100, verify=_INF, pack_with_base=50, ratio=0.5, ratio_with_base=0.1, seconds_per_task=0
)
_NEVER = Failures(node_hours=0, task=0)


def _settings(store: Store = _FREE_STORE, failures: Failures = _NEVER, **cluster: float) -> Settings:
    machines = Cluster(
        **{
            "nodes": 1,
            "cores": 1,
            "network_bytes_per_second": _INF,
            "dispatches_per_second": _INF,
            **cluster,
        }
    )
    return Settings(cluster=machines, store=store, speeds=_SPEEDS, failures=failures)


def _works(count: int, length: int = 1000) -> list[Work]:
    return [work_of(length, _SPEEDS)] * count


def test_one_node_takes_all_bytes_by_its_speed() -> None:
    run = simulate(_works(30), _settings())
    assert run.seconds == pytest.approx(30 * 1000 / 100)
    assert (run.done, run.failed, run.repeated) == (30, 0, 0)
    assert run.used["processors"] == pytest.approx(1)
    assert run.binding == "processors"
    assert run.read_bytes == 30_000 and run.written_bytes == 15_000


def test_machines_and_processors_divide_the_time() -> None:
    assert simulate(_works(30), _settings(nodes=3)).seconds == pytest.approx(100)
    assert simulate(_works(30), _settings(nodes=3, cores=5)).seconds == pytest.approx(20)
    # Each task uses two processors.
    assert simulate(_works(30), _settings(cores=2, threads=2)).seconds == pytest.approx(150)
    # Three machines run three tasks at a time, so the fourth task runs alone.
    assert simulate(_works(4), _settings(nodes=3)).seconds == pytest.approx(20)


def test_a_base_is_read_and_restored() -> None:
    work = work_of(1000, replace(_SPEEDS, verify=200), base_bytes=600)
    assert work.read_bytes == 1000 + 300
    assert work.packed_bytes == 100
    assert work.cpu_seconds == pytest.approx(1000 / 50 + 1600 / 200)


@pytest.mark.parametrize(
    ("store", "seconds", "limit"),
    [
        ({"read_bytes_per_second": 50}, 30_000 / 50, "store, bytes read"),
        ({"write_bytes_per_second": 25}, 15_000 / 25, "store, bytes written"),
        # Each of 30 files takes three fixed requests and one for its only part.
        ({"reads_per_second": 0.2}, 30 * 4 / 0.2, "store, reads per second"),
        ({"writes_per_second": 0.1}, 30 * 3 / 0.1, "store, writes per second"),
    ],
)
def test_the_store_binds(store: dict[str, float], seconds: float, limit: str) -> None:
    run = simulate(_works(30), _settings(replace(_FREE_STORE, **store), nodes=10))
    # The first and the last task add the time of packing.
    assert seconds <= run.seconds <= seconds + 2 * 10
    assert run.binding == limit


def test_the_network_of_a_node_binds() -> None:
    run = simulate(_works(300), _settings(cores=10, network_bytes_per_second=40))
    assert 300_000 / 40 <= run.seconds <= 300_000 / 40 + 25
    assert run.binding == "network of nodes"


def test_the_driver_binds() -> None:
    run = simulate(_works(30), _settings(cores=1000, dispatches_per_second=0.5))
    assert 60 <= run.seconds <= 60 + 10
    assert run.binding == "driver"


def test_slow_connections_leave_processors_idle() -> None:
    store = replace(_FREE_STORE, stream_bytes_per_second=50, streams=1)
    run = simulate(_works(30), _settings(store))
    # Each task takes 20 s to read, 10 s to pack and 10 s to write.
    assert run.seconds == pytest.approx(30 * 40)
    assert run.used["processors"] == pytest.approx(0.25, rel=0.05)
    assert run.binding == "tasks on a node"


def test_tasks_that_fail_are_made_again_and_given_up() -> None:
    run = simulate(_works(2000), _settings(failures=Failures(node_hours=0, task=0.1, attempts=50)))
    assert (run.done, run.failed) == (2000, 0)
    # The expected number is a geometric series: 2000 * 0.1 / 0.9.
    assert run.repeated == pytest.approx(222, abs=50)
    assert run.seconds == pytest.approx((2000 + run.repeated) * 10)
    run = simulate(_works(2000), _settings(failures=Failures(node_hours=0, task=0.5, attempts=2)))
    assert run.failed == pytest.approx(500, abs=70)
    assert run.done + run.failed == 2000


def test_what_a_machine_worked_on_is_done_by_others() -> None:
    failures = Failures(node_hours=0.5, replacement_seconds=100, task=0)
    settings = _settings(failures=failures, nodes=4)
    run = simulate(_works(4000), settings)
    assert run.done == 4000
    assert run.node_failures > 10
    assert run.repeated == pytest.approx(run.node_failures, abs=run.node_failures * 0.1 + 2)
    # Each failure costs 100 s of a machine, and on average half a task.
    expected = 4000 * 10 / 4 * (1 + (100 + 5) / 1800)
    assert run.seconds == pytest.approx(expected, rel=0.05)
    # A machine that fails at the end does not keep its tasks.
    short = replace(settings, failures=Failures(0.01, replacement_seconds=1e6, task=0))
    assert simulate(_works(40), replace(short, cluster=replace(short.cluster, nodes=40))).done == 40


def test_a_seed_gives_the_same_figures() -> None:
    settings = Settings()
    first, again, other = (
        estimate(1e15, Census(), settings, seed, max_tasks=2000) for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other
    assert first.hours == pytest.approx(other.hours, rel=0.1)


def test_lengths_have_the_mean_and_the_median() -> None:
    census = Census(max_bytes=1e15)
    lengths = census.lengths(20_000, 0)
    assert lengths == sorted(lengths, reverse=True)
    assert sum(lengths) / len(lengths) == pytest.approx(1e9, rel=0.05)
    assert lengths[10_000] == pytest.approx(120e6, rel=0.01)
    assert max(Census().lengths(20_000, 0)) <= 50e9
    # If median and mean are equal, all files have the same length.
    assert set(Census(mean_bytes=100, median_bytes=100).lengths(5, 0)) == {100}


def test_a_slice_stands_for_the_whole() -> None:
    census = Census(max_bytes=2e9)
    settings = replace(Settings(), cluster=Cluster(nodes=32, cores=4))
    whole = estimate(12e12, census, settings, max_tasks=100_000)
    sliced = estimate(12e12, census, settings, max_tasks=2000)
    assert whole.tasks == pytest.approx(sliced.tasks, rel=0.02)
    assert whole.tasks > 10_000
    assert sliced.hours == pytest.approx(whole.hours, rel=0.03)
    assert sliced.cost == pytest.approx(whole.cost, rel=0.03)
    # A job with ten times the files takes ten times as long.
    assert estimate(120e12, census, settings).hours == pytest.approx(10 * whole.hours, rel=0.03)


def test_copies_take_no_time_and_no_room() -> None:
    settings = Settings()
    without, half = (
        estimate(1e15, Census(duplicates=part, with_base=0), settings) for part in (0.0, 0.5)
    )
    assert half.hours == pytest.approx(without.hours / 2, rel=0.05)
    assert without.packed_bytes == pytest.approx(0.66e15, rel=0.02)
    assert half.packed_bytes == pytest.approx(0.33e15, rel=0.02)


def test_beyond_the_knee_machines_do_not_help() -> None:
    census = Census(max_bytes=5e9)
    settings = Settings()
    stop = knee(census, settings)

    def rate(nodes: float) -> float:
        cluster = replace(settings.cluster, nodes=round(nodes))
        found = estimate(100e15, census, replace(settings, cluster=cluster))
        return found.bytes_per_second * (1 - census.duplicates)

    assert rate(stop.nodes / 4) == pytest.approx(stop.bytes_per_second / 4, rel=0.1)
    assert rate(stop.nodes * 4) == pytest.approx(stop.bytes_per_second, rel=0.1)
    assert rate(stop.nodes * 8) < 1.05 * rate(stop.nodes * 4)


def test_speeds_are_read_from_a_run(tmp_path: Path) -> None:
    rows = [
        {"original_bytes": size, "packed_bytes": size * 0.6, "seconds": 0.25 + size / 200}
        for size in (100, 500, 300, 2000)
    ]
    others = [
        {"event": "row", "state": "refused", "original_bytes": 7},
        {"event": "summary", "packed": 4},
    ]
    path = tmp_path / "run.jsonl"
    events = [{"event": "row", "state": "packed", "more": 1, **row} for row in rows] + others
    path.write_text("\n".join(json.dumps(event) for event in events) + "\n\n")
    measured = read_measured(path)
    assert measured.seconds_per_task == pytest.approx(0.25)
    assert measured.bytes_per_second == pytest.approx(200)
    assert measured.ratio == pytest.approx(0.6)
    settings = measured.settings(Settings())
    assert work_of(400, settings.speeds).cpu_seconds == pytest.approx(2.25)
    # The measured time of a task includes its transfers, which must not be added again.
    works = [work_of(400, settings.speeds)]
    certain = replace(settings, failures=Failures(node_hours=0, task=0))
    assert simulate(works, certain).seconds == pytest.approx(2.25, abs=0.01)
    # Times that decrease with the length are noise.
    noisy = fit(
        {"original_bytes": size, "packed_bytes": 1, "seconds": seconds}
        for size, seconds in ((1, 2), (3, 1))
    )
    assert noisy.seconds_per_task >= 0 and noisy.bytes_per_second > 0
    with pytest.raises(ValueError, match="two different lengths"):
        fit(rows[:1])
    path.write_text('{"original_bytes": 1}\n')
    with pytest.raises(ValueError, match="line 1"):
        read_measured(path)


def _parse(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return parser.parse_args(arguments)


def test_the_command_prints_a_line_for_each(capsys: pytest.CaptureFixture[str]) -> None:
    options = _parse("--volume", "1PB", "--volume", "30PB", "--nodes", "16", "--nodes", "300")
    assert options.run(options) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 6
    assert lines[1].split()[:3] == ["1", "PB", "16"]
    assert lines[-1].startswith("It stops scaling at ")


def test_the_command_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    options = _parse("--json", "--volume", "1PB", "--nodes", "2", "--set", "cluster.cores=3")
    assert options.run(options) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["settings"]["cluster"]["cores"] == 3
    assert found["estimates"][0]["nodes"] == 2
    assert found["knee"]["limit"] in found["estimates"][0]["used"]


@pytest.mark.parametrize(
    "value",
    ["cluster.cores", "cluster.cores=x", "cluster.cores=1.5", "cluster.x=1", "store.latency=-1",
     "store.latency=nan", "census.median_bytes=2e9", "=1"],
)  # fmt: skip
def test_wrong_settings_are_refused(value: str) -> None:
    with pytest.raises(ValueError, match="set|number|above|census"):
        with_values(Settings(), Census(), [value])


@pytest.mark.parametrize("name", [name for name, _ in names()])
def test_zero_never_hangs(name: str) -> None:
    options = _parse("--volume", "1GB", "--nodes", "1", "--set", f"{name}=0")
    try:
        assert options.run(options) == 0
    except ValueError as error:
        assert name in str(error) and "above 0" in str(error)


def test_machines_that_fail_all_the_time_are_an_error() -> None:
    failures = Failures(node_hours=0.0001, replacement_seconds=1, task=0)
    with pytest.raises(ValueError, match="machines fail"):
        simulate(_works(3), _settings(failures=failures))


def test_wrong_arguments_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--volume", "PB"], ["--volume", "0PB"], ["--nodes", "0"], ["--nodes", "x"]):
        with pytest.raises(SystemExit):
            _parse(*arguments)
    assert "30PB" in capsys.readouterr().err


def test_the_commands_of_the_document_run() -> None:
    text = (Path(__file__).parents[4] / "docs/simulation.md").read_text(encoding="utf-8")
    commands = re.findall(r"^python -m (zstn_hub simulate.*)$", text, re.MULTILINE)
    assert len(commands) == 3
    for line in commands:
        words = [sys.executable, "-m", *line.split()]
        done = subprocess.run(words, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        if line.endswith("simulate"):
            # The document contains the output of the command.
            assert done.stdout in text
