"""Measures the same job on one node, on two nodes, and on processes without a cluster;
the overhead that Ray adds per file; and the difference between simulation and
reality."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import cluster
from hub_files import hub_files
from runs import SOURCE, Ended, figure, finish, hub, start
from store import Store

from zstn_hub.simulation import Cluster, Failures, Settings, Store as StoreLimits, Work, simulate
from zstn_hub.simulation._measured import fit

_COUNT = int(os.environ.get("ZSTN_HUB_JOB_FILES", "200"))
#: Number of files packed before the measurement. Workers are processes, and the first
#: task of each worker imports the package.
_WARM_UP = 8
_MEMORY_BYTES = 2 << 30

#: The measured duration of a task includes its transfers, and no failures occur.
_SETTINGS = Settings(
    store=StoreLimits(*[math.inf] * 4, latency=0.0, stream_bytes_per_second=math.inf),
    failures=Failures(node_hours=0, task=0),
)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, Store(Path(folder)) as store:
        os.environ.update(store.environment(), ZSTN_CACHE=f"{folder}/cache")
        _measure(store, Path(folder))


def _measure(store: Store, folder: Path) -> None:
    for bucket in ("originals", "packed"):
        store.make_bucket(bucket)
    files = hub_files(_COUNT)
    for file in files:
        store.put(f"originals/models/{file.name}", file.content)
    plan = _plan(folder / "plan.jsonl", SOURCE)
    warm_up = folder / "warm-up.jsonl"
    lines = plan.read_text().splitlines()
    warm_up.write_text("\n".join(lines[:_WARM_UP]) + "\n")

    # The cluster inherits the environment variables of the store.
    nodes = cluster.Nodes()
    try:
        runs = {}
        for count in (1, 2):
            nodes.add(1, _MEMORY_BYTES)
            executor = ("--executor", "ray", "--address", nodes.address)
            _run(warm_up, f"s3://packed/warm-up{count}", *executor)
            runs[count] = _run(plan, f"s3://packed/on{count}", *executor)
    finally:
        nodes.close()
    local = _run(plan, "s3://packed/local", "--processes", "2")

    one, two = runs[1], runs[2]
    length = sum(event["original_bytes"] for event in _packed(one))
    for name, run in (("one node", one), ("two nodes", two), ("two processes, no Ray", local)):
        seconds = run.summary["seconds"]
        figure(f"{name}: {len(_packed(run))} files in {seconds:.1f} s, {length / seconds / 1e6:.2f} MB/s")
    figure(f"two nodes are {one.summary['seconds'] / two.summary['seconds']:.2f} times as fast as one")
    figure(
        f"beside its own time a file takes {_overhead(one, 1):.0f} ms of one node, "
        f"{_overhead(two, 2):.0f} ms of two, {_overhead(local, 2):.0f} ms without Ray"
    )
    _compare("two nodes, tasks as long as on two", _simulated(_packed(two), _packed(two), 2), two)
    _compare("two nodes, tasks as long as on one", _simulated(_packed(one), _packed(two), 2), two)
    _compare("one node", _simulated(_packed(one), _packed(one), 1), one)


def _plan(path: Path, source: str) -> Path:
    done = hub("plan", source, "-o", str(path))
    assert done.returncode == 0, done.stderr
    return path


def _run(plan: Path, results: str, *executor: str) -> Ended:
    ended = finish(start(plan, results, *executor))
    assert ended.status == 0, ended.events[-1]
    return ended


def _packed(run: Ended) -> Sequence[dict[str, Any]]:
    rows = [event for event in run.events if event["event"] == "row"]
    return [event for event in rows if event["state"] == "packed"]


def _overhead(run: Ended, processors: int) -> float:
    """Returns the processor time per file, in milliseconds, that is not spent in its
    task."""
    tasks = _packed(run)
    idle = processors * run.summary["seconds"] - sum(task["seconds"] for task in tasks)
    return 1000 * idle / len(tasks)


def _simulated(
    measured: Sequence[dict[str, Any]], files: Sequence[dict[str, Any]], nodes: int
) -> float:
    """Returns the duration of the simulated job in seconds, with tasks as long as the
    measured ones."""
    line = fit(measured)
    works = [
        Work(
            original_bytes=file["original_bytes"],
            packed_bytes=file["packed_bytes"],
            read_bytes=file["original_bytes"],
            cpu_seconds=line.seconds_per_task + file["original_bytes"] / line.bytes_per_second,
        )
        for file in sorted(files, key=lambda file: -file["original_bytes"])
    ]
    settings = replace(_SETTINGS, cluster=Cluster(nodes=nodes, cores=1))
    return simulate(works, settings).seconds


def _compare(name: str, simulated: float, run: Ended) -> None:
    real = run.summary["seconds"]
    figure(f"{name}: simulated {simulated:.1f} s, real {real:.1f} s, {simulated / real - 1:+.0%}")


if __name__ == "__main__":
    main()
