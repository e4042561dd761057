"""The executor on a Ray cluster, with tasks that end in every possible way."""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import cluster
import pytest
import ray
import stub_work

from zstn_hub.job._task import Limits, Outcome, Task
from zstn_hub.job.executors.ray import SCRATCH, RayExecutor

#: Time limit of a wait, much longer than any step takes, so that a hang is a failure.
_LIMIT = 120


@pytest.fixture(scope="module")
def nodes() -> Iterator[cluster.Nodes]:
    running = cluster.Nodes()
    ray.init(address=running.address, log_to_driver=False)
    yield running
    ray.shutdown()
    running.close()


@pytest.fixture
def executor(nodes: cluster.Nodes) -> Iterator[RayExecutor]:
    executor = RayExecutor(work=stub_work.work)
    yield executor
    executor.close()
    nodes.clear()


def task(key: str, path: str, memory: int = 1 << 20, scratch: int = 0, threads: int = 1) -> Task:
    return Task(
        row={"repo": "o/n", "path": path, "key": key},
        source="s3://originals",
        store="s3://packed",
        effort="balanced",
        extended=False,
        limits=Limits(memory, scratch, threads),
    )


def collect(executor: RayExecutor, count: int) -> dict[str, Outcome]:
    """Waits for `count` outcomes, and returns them by key."""
    found: dict[str, Outcome] = {}
    deadline = time.monotonic() + _LIMIT
    while len(found) < count and time.monotonic() < deadline:
        for outcome in executor.wait(1):
            assert outcome.key not in found, "two outcomes of one task"
            found[outcome.key] = outcome
    assert len(found) == count
    assert not list(executor.wait(0))
    return found


def wait_for(path: Path) -> None:
    until(path.exists, f"{path} does not appear")


def most_at_once(folder: Path, keys: str) -> int:
    """Returns how many of these tasks, which slept, have run at the same time."""
    changes = []
    for key in keys:
        changes.append(((folder / key).stat().st_mtime_ns, 1))
        changes.append(((folder / f"{key}-done").stat().st_mtime_ns, -1))
    return max(itertools.accumulate(change for _, change in sorted(changes)))


def until(condition: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + _LIMIT
    while not condition():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.02)


def test_every_end_has_an_outcome(nodes: cluster.Nodes, executor: RayExecutor) -> None:
    nodes.add(2)
    executor.submit(task("done", "nothing"))
    executor.submit(task("crashed", "crash"))
    executor.submit(task("broken", "raise zstn is too old"))
    executor.submit(task("refused", "refuse it is no safetensors file"))
    found = collect(executor, 4)
    assert {key: outcome.state for key, outcome in found.items()} == {
        "done": "packed",
        "crashed": "lost",
        "broken": "retry",
        "refused": "refused",
    }
    assert found["done"].packed_bytes == 7 and found["done"].seconds == 1.5
    assert found["crashed"].reason == "the process that worked on it is gone"
    assert "zstn is too old" in found["broken"].reason
    assert found["refused"].reason == "it is no safetensors file"


def test_the_capacity_is_that_of_live_nodes(nodes: cluster.Nodes, executor: RayExecutor) -> None:
    first = nodes.add(2, 300 << 20)
    nodes.add(4, 700 << 20)
    fits = [task("a", "", memory=700 << 20), task("b", "", threads=4), task("c", "", scratch=10**15)]
    wide = [task("d", "", memory=701 << 20), task("e", "", threads=5)]

    def held(tasks: list[Task]) -> list[bool]:
        return [any(node.holds(task) for node in executor.capacity()) for task in tasks]

    # The head node has memory, but runs no tasks.
    assert sorted(node.threads for node in executor.capacity()) == [2, 4]
    assert held(fits) == [True] * 3
    assert held(wide) == [False] * 2
    until(lambda: executor.slots() == 4 * 6, "the slots are not those of the nodes")
    assert RayExecutor(threads=2, work=stub_work.work).slots() == 4 * 3
    nodes.kill(first)
    # Ray notices a killed node after some seconds.
    until(lambda: executor.slots() == 4 * 4, "the dead node still counts")


def test_memory_is_reserved(nodes: cluster.Nodes, executor: RayExecutor, tmp_path: Path) -> None:
    nodes.add(4, 300 << 20)
    # There are enough processors for three tasks, but not enough memory.
    for key in "abc":
        executor.submit(task(key, f"sleep 1 {tmp_path}", memory=140 << 20))
    assert {outcome.state for outcome in collect(executor, 3).values()} == {"packed"}
    assert most_at_once(tmp_path, "abc") <= 2


def test_scratch_is_reserved_where_nodes_declare_it(
    nodes: cluster.Nodes, executor: RayExecutor, tmp_path: Path
) -> None:
    nodes.add(4, **{SCRATCH: 3})
    nodes.add(4)
    fits, large = (task(key, "", scratch=size) for key, size in (("a", 3 * 10**9), ("b", 31 * 10**8)))
    capacity = executor.capacity()
    assert [sum(node.holds(one) for node in capacity) for one in (fits, large)] == [1, 0]
    # Above one gigabyte, Ray only counts whole gigabytes.
    for key, gigabytes in (("c", 1.7), ("d", 1.2)):
        executor.submit(task(key, f"sleep 1 {tmp_path}", scratch=int(gigabytes * 1e9)))
    executor.submit(task("e", "nothing", scratch=10**8))
    assert {outcome.state for outcome in collect(executor, 3).values()} == {"packed"}
    assert most_at_once(tmp_path, "cd") == 1


def test_a_node_that_is_lost_loses_its_tasks(
    nodes: cluster.Nodes, executor: RayExecutor, tmp_path: Path
) -> None:
    lost = nodes.add(1, lost=1)
    executor.submit(task("first", f"sleep 600 {tmp_path}"))
    wait_for(tmp_path / "first")
    nodes.add(1)
    executor.submit(task("second", "nothing"))
    nodes.kill(lost)
    found = collect(executor, 2)
    assert found["first"].state == "lost"
    assert found["second"].state == "packed"


def test_what_no_node_holds_any_more_is_lost(
    nodes: cluster.Nodes, executor: RayExecutor, tmp_path: Path
) -> None:
    large = nodes.add(1, 600 << 20)
    nodes.add(1, 200 << 20)
    executor.submit(task("running", f"sleep 600 {tmp_path}", memory=500 << 20))
    wait_for(tmp_path / "running")
    executor.submit(task("waiting", "nothing", memory=500 << 20))
    executor.submit(task("small", "nothing", memory=1 << 20))
    nodes.kill(large)
    found = collect(executor, 3)
    assert found["small"].state == "packed"
    assert found["running"].state == "lost"
    assert found["waiting"].state == "lost"
    assert found["waiting"].reason == "the remaining nodes are too small for it"


def test_stopping_gives_everything_back(
    nodes: cluster.Nodes, executor: RayExecutor, tmp_path: Path
) -> None:
    nodes.add(2)
    executor.submit(task("short", f"sleep 0.2 {tmp_path}"))
    wait_for(tmp_path / "short-done")
    executor.submit(task("running", f"sleep 600 {tmp_path}"))
    wait_for(tmp_path / "running")
    executor.submit(task("also", f"sleep 600 {tmp_path}"))
    wait_for(tmp_path / "also")
    executor.submit(task("waiting", f"sleep 0 {tmp_path}"))
    began = time.monotonic()
    found = {outcome.key: outcome.state for outcome in executor.stop(30)}
    assert time.monotonic() - began < 20
    assert found == {
        "short": "packed",
        "running": "given_back",
        "also": "given_back",
        "waiting": "given_back",
    }
    assert not (tmp_path / "waiting").exists()
    assert not list(executor.wait(0))


def test_without_ray_there_is_a_sentence() -> None:
    # Python marks modules that cannot be imported with None in sys.modules.
    program = (
        "import sys; sys.modules['ray'] = None\n"
        "from zstn_hub.job.executors.ray import open\n"
        "open()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stderr.strip().endswith("needs Ray: pip install 'zstn-hub[ray]'")
