"""Estimates of time and cost for jobs with too many files to simulate each of them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from ._events import OF_NODES, Run, simulate
from ._settings import GB, Settings
from ._work import Census, Work

#: Maximum number of tasks to simulate, which takes ten seconds.
MAX_TASKS = 20_000
#: Minimum number of machines to simulate, unless the cluster is smaller.
_MIN_NODES = 4


@dataclass(frozen=True)
class Estimate:
    """The estimate for a whole job."""

    volume_bytes: float
    nodes: int
    #: Number of tasks: one for each file, without copies of other files.
    tasks: float
    hours: float
    packed_bytes: float
    #: Cost of machines, requests and transfers in dollars.
    cost: float
    #: Cost per month in dollars of storing the bytes that packing saves.
    saved_per_month: float
    repeated: float
    node_failures: float
    used: dict[str, float]
    binding: str

    @property
    def bytes_per_second(self) -> float:
        """Bytes of originals per second, including copies."""
        return self.volume_bytes / (self.hours * 3600)

    @property
    def used_percent(self) -> str:
        """Utilisation of the most used limit, as a percentage."""
        return f"{max(self.used.values()):.0%}"


@dataclass(frozen=True)
class Knee:
    """The number of machines where a job stops scaling, and the limit that stops it."""

    #: Number of machines beyond which the job does not get faster.
    nodes: float
    #: The limit that binds beyond this point.
    limit: str
    #: Bytes of different originals per second that this limit allows.
    bytes_per_second: float


def estimate(
    volume_bytes: float,
    census: Census,
    settings: Settings,
    seed: int = 0,
    max_tasks: int = MAX_TASKS,
) -> Estimate:
    """Estimates a job on a hub with this volume.

    For a large job, one slice is simulated: every kth file on every nth machine, with
    1/n of the resources that all machines share. While tasks are waiting, the job takes
    k / n times as long as its slice; the tail, while machines become idle, takes the
    same time in both.

    Raises:
        ValueError: if these settings would never complete a task.
    """
    sample = census.lengths(max_tasks, seed)
    different_bytes = volume_bytes * (1 - census.duplicates)
    tasks = max(1.0, different_bytes / (sum(sample) / len(sample)))
    count = min(max_tasks, math.ceil(tasks))
    every = tasks / count
    nodes = settings.cluster.nodes
    sliced = max(min(nodes, _MIN_NODES), math.ceil(nodes / every))
    share = nodes / sliced
    works = census.works(count, settings.speeds, seed)
    # A slice is too short for a machine to fail in it; failures are added below.
    certain = replace(settings, failures=replace(settings.failures, node_hours=0))
    run = simulate(works, _slice(certain, sliced, share), seed)
    longer = max(1.0, every / share)
    hours = (run.bulk_seconds * longer + run.seconds - run.bulk_seconds) / 3600
    mean_seconds = _Mean(works, settings).seconds
    if run.binding in OF_NODES:
        hours *= 1 + _lost(settings, mean_seconds)
    node_failures = _node_failures(settings, hours)
    packed_bytes = sum(work.packed_bytes for work in works) * every
    # Copies occupy no storage.
    saved_bytes = volume_bytes - packed_bytes
    return Estimate(
        volume_bytes=volume_bytes,
        nodes=nodes,
        tasks=tasks,
        hours=hours,
        packed_bytes=packed_bytes,
        cost=_cost(run, settings, hours, every),
        saved_per_month=saved_bytes / GB * settings.prices.gb_month,
        repeated=run.repeated * every + node_failures * settings.cluster.slots,
        node_failures=node_failures,
        used=run.used,
        binding=run.binding,
    )


def knee(census: Census, settings: Settings, seed: int = 0) -> Knee:
    """Returns the number of machines that exhaust a shared limit."""
    works = census.works(MAX_TASKS, settings.speeds, seed)
    store, cluster = settings.store, settings.cluster
    mean = _Mean(works, settings)
    at_once = {
        "store, bytes read": store.read_bytes_per_second / mean.read_bytes,
        "store, bytes written": store.write_bytes_per_second / mean.packed_bytes,
        "store, reads per second": store.reads_per_second / mean.reads,
        "store, writes per second": store.writes_per_second / mean.writes,
        "driver": cluster.dispatches_per_second,
    }
    limit = min(at_once, key=lambda name: at_once[name])
    of_a_node = min(
        cluster.slots / mean.seconds,
        cluster.network_bytes_per_second / max(mean.read_bytes, mean.packed_bytes),
    )
    tasks_per_second = at_once[limit]
    return Knee(tasks_per_second / of_a_node, limit, tasks_per_second * mean.original_bytes)


class _Mean:
    """The averages of all tasks."""

    def __init__(self, works: list[Work], settings: Settings) -> None:
        store, count = settings.store, len(works)
        stream = store.stream_bytes_per_second * store.streams
        self.original_bytes = sum(work.original_bytes for work in works) / count
        self.read_bytes = sum(work.read_bytes for work in works) / count
        self.packed_bytes = sum(work.packed_bytes for work in works) / count
        self.reads = sum(work.reads(store) for work in works) / count
        self.writes = sum(work.writes(store) for work in works) / count
        cpu_seconds = sum(work.cpu_seconds for work in works) / count
        transfers = 2 * store.latency + (self.read_bytes + self.packed_bytes) / stream
        self.seconds = cpu_seconds / settings.cluster.threads + transfers


def _slice(settings: Settings, nodes: int, share: float) -> Settings:
    store, cluster = settings.store, settings.cluster
    return replace(
        settings,
        cluster=replace(
            cluster,
            nodes=nodes,
            dispatches_per_second=cluster.dispatches_per_second / share,
        ),
        store=replace(
            store,
            read_bytes_per_second=store.read_bytes_per_second / share,
            write_bytes_per_second=store.write_bytes_per_second / share,
            reads_per_second=store.reads_per_second / share,
            writes_per_second=store.writes_per_second / share,
        ),
    )


def _lost(settings: Settings, mean_seconds: float) -> float:
    """Returns the share of machine time that is lost to failures: the time until a
    machine has been replaced, and on average half a task."""
    failures = settings.failures
    if failures.node_hours <= 0:
        return 0.0
    return (failures.replacement_seconds + mean_seconds / 2) / (failures.node_hours * 3600)


def _node_failures(settings: Settings, hours: float) -> float:
    node_hours = settings.failures.node_hours
    return settings.cluster.nodes * hours / node_hours if node_hours > 0 else 0.0


def _cost(run: Run, settings: Settings, hours: float, every: float) -> float:
    prices = settings.prices
    machines = settings.cluster.nodes * hours * prices.node_hour
    requests = run.reads * prices.thousand_reads + run.writes * prices.thousand_writes
    return machines + every * (requests / 1000 + run.read_bytes / GB * prices.gb_out)


