"""The events of a job: tasks start, read, code, write and end; machines fail."""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from ._settings import Cluster, Failures, Settings, Store
from ._work import Work

#: Names of the limits, for display.
LIMITS = (
    "processors",
    "network of nodes",
    "store, bytes read",
    "store, bytes written",
    "store, reads per second",
    "store, writes per second",
    "driver",
)
#: Name of the binding limit if no other limit is used up.
SLOTS = "tasks on a node"
_USED_UP = 0.85
#: The limits that more machines raise.
OF_NODES = frozenset({*LIMITS[:2], SLOTS})


@dataclass(frozen=True)
class Run:
    """The result of a simulated job."""

    #: Seconds from the first event to the last.
    seconds: float
    #: Seconds until no task was waiting. After that, machines become idle.
    bulk_seconds: float
    done: int
    #: Number of tasks whose attempts all failed.
    failed: int
    #: Number of repeated attempts, after a failure of the task or of its machine.
    repeated: int
    node_failures: int
    original_bytes: int
    read_bytes: float
    written_bytes: float
    reads: float
    writes: float
    #: Utilisation of each limit while tasks were waiting, from 0 to 1; over the whole
    #: job if most of its time came after that.
    used: dict[str, float]

    @property
    def binding(self) -> str:
        """The most used limit, or `SLOTS` if none is used up: tasks leave their
        processors idle while they read and write."""
        name = max(self.used, key=lambda name: self.used[name])
        return name if self.used[name] >= _USED_UP else SLOTS


class _Pipe:
    """A resource that serves requests in order, at a fixed rate."""

    __slots__ = ("_free_at", "_rate", "amount")

    def __init__(self, rate: float) -> None:
        if not rate > 0:
            raise ValueError("a limit has to be above 0")
        self._rate = rate
        self._free_at = 0.0
        #: Total amount served.
        self.amount = 0.0

    def pass_through(self, now: float, amount: float) -> float:
        """Serves `amount` requested at time `now`, and returns the time of completion.
        """
        self.amount += amount
        self._free_at = max(now, self._free_at) + amount / self._rate
        return self._free_at

    @property
    def busy_seconds(self) -> float:
        return self.amount / self._rate


class _Limits:
    """The limits of a job, with their use so far."""

    def __init__(self, cluster: Cluster, store: Store) -> None:
        self.received = [_Pipe(cluster.network_bytes_per_second) for _ in range(cluster.nodes)]
        self.sent = [_Pipe(cluster.network_bytes_per_second) for _ in range(cluster.nodes)]
        self.read = _Pipe(store.read_bytes_per_second)
        self.written = _Pipe(store.write_bytes_per_second)
        self.reads = _Pipe(store.reads_per_second)
        self.writes = _Pipe(store.writes_per_second)
        self.driver = _Pipe(cluster.dispatches_per_second)
        self.cpu_seconds = 0.0
        self._cluster = cluster

    def used(self, seconds: float) -> dict[str, float]:
        nodes = self._cluster.nodes
        network = max(
            sum(pipe.busy_seconds for pipe in side) / nodes for side in (self.received, self.sent)
        )
        cpu = self.cpu_seconds / (nodes * self._cluster.slots * self._cluster.threads)
        pipes = (self.read, self.written, self.reads, self.writes, self.driver)
        busy = (cpu, network, *(pipe.busy_seconds for pipe in pipes))
        return {
            name: min(1.0, value / seconds) if seconds > 0 else 0.0
            for name, value in zip(LIMITS, busy, strict=True)
        }


class _Job:
    """The state of a running job."""

    def __init__(self, works: Sequence[Work], settings: Settings, seed: int) -> None:
        self.settings = settings
        self.cluster = settings.cluster
        self.store = settings.store
        self.limits = _Limits(self.cluster, self.store)
        self.draw = random.Random(f"failures {seed}")
        self.works = works
        #: Indices of waiting tasks. The driver only hands over the next few.
        self.waiting = deque(range(len(works)))
        self.ready: deque[tuple[float, int]] = deque()
        self.window = 4 * self.cluster.nodes * self.cluster.slots
        self.failures_of = [0] * len(works)
        #: Counts the replacements of each machine; events of replaced machines are
        #: ignored.
        self.life = [0] * self.cluster.nodes
        #: Free slots: the machine and its replacement count.
        self.idle: deque[tuple[int, int]] = deque()
        self.running: list[set[int]] = [set() for _ in range(self.cluster.nodes)]
        self.events: list[tuple[float, int, str, int, int, int]] = []
        self.order = 0
        self.bulk_seconds = 0.0
        self.used: dict[str, float] = {}
        self.last = 0.0
        self.done = self.failed = self.repeated = self.node_failures = 0

    def push(self, time: float, kind: str, node: int, task: int = -1) -> None:
        # The sequence number defines the order of simultaneous events.
        self.order += 1
        heapq.heappush(self.events, (time, self.order, kind, node, self.life[node], task))

    def hand_over(self, now: float) -> None:
        while self.waiting and len(self.ready) < self.window:
            task = self.waiting.popleft()
            self.ready.append((self.limits.driver.pass_through(now, 1), task))

    def start_next(self, now: float, node: int) -> None:
        """Gives a free slot its next task."""
        self.hand_over(now)
        if not self.ready:
            self.idle.append((node, self.life[node]))
            return
        ready_at, task = self.ready.popleft()
        if not self.ready and not self.waiting:
            self.bulk_seconds = max(now, ready_at)
            self.used = self.limits.used(self.bulk_seconds)
        self.running[node].add(task)
        self.push(max(now, ready_at), "read", node, task)

    def run(self) -> Run:
        # Slots are filled round-robin, so that the longest tasks are on different
        # machines.
        for _ in range(self.cluster.slots):
            for node in range(self.cluster.nodes):
                self.start_next(0.0, node)
        for node in range(self.cluster.nodes):
            self.plan_failure(0.0, node)
        while self.done + self.failed < len(self.works):
            time, _, kind, node, life, task = heapq.heappop(self.events)
            if life == self.life[node]:
                getattr(self, kind)(time, node, task)
        limits = self.limits
        bulk_seconds = min(self.bulk_seconds, self.last)
        return Run(
            seconds=self.last,
            bulk_seconds=bulk_seconds,
            done=self.done,
            failed=self.failed,
            repeated=self.repeated,
            node_failures=self.node_failures,
            original_bytes=sum(work.original_bytes for work in self.works),
            read_bytes=limits.read.amount,
            written_bytes=limits.written.amount,
            reads=limits.reads.amount,
            writes=limits.writes.amount,
            used=self.used if 2 * bulk_seconds > self.last else limits.used(self.last),
        )

    # Handlers of events.

    def read(self, now: float, node: int, task: int) -> None:
        store, work = self.store, self.works[task]
        end = max(
            now + store.latency + work.read_bytes / _stream_rate(store),
            self.limits.received[node].pass_through(now, work.read_bytes),
            self.limits.read.pass_through(now, work.read_bytes),
            self.limits.reads.pass_through(now, work.reads(store)),
        )
        self.push(end, "code", node, task)

    def code(self, now: float, node: int, task: int) -> None:
        cpu_seconds = self.works[task].cpu_seconds
        self.limits.cpu_seconds += cpu_seconds
        self.push(now + cpu_seconds / self.cluster.threads, "write", node, task)

    def write(self, now: float, node: int, task: int) -> None:
        store, work = self.store, self.works[task]
        end = max(
            now + store.latency + work.packed_bytes / _stream_rate(store),
            self.limits.sent[node].pass_through(now, work.packed_bytes),
            self.limits.written.pass_through(now, work.packed_bytes),
            self.limits.writes.pass_through(now, work.writes(store)),
        )
        self.push(end, "end", node, task)

    def end(self, now: float, node: int, task: int) -> None:
        self.running[node].discard(task)
        self.last = max(self.last, now)
        failures: Failures = self.settings.failures
        if self.draw.random() < failures.task:
            self.failures_of[task] += 1
            if self.failures_of[task] < failures.attempts:
                self.repeated += 1
                self.waiting.append(task)
            else:
                self.failed += 1
        else:
            self.done += 1
        self.start_next(now, node)

    def plan_failure(self, now: float, node: int) -> None:
        hours = self.settings.failures.node_hours
        if hours > 0:
            self.push(now + self.draw.expovariate(1 / (hours * 3600)), "fail", node)

    def fail(self, now: float, node: int, _task: int) -> None:
        self.node_failures += 1
        self.repeated += len(self.running[node])
        if self.repeated > 100 * (len(self.works) + self.cluster.nodes):
            raise ValueError("machines fail before they can finish anything")
        # Tasks are sorted by length, so these are the longest of the remaining ones.
        self.waiting.extendleft(sorted(self.running[node], reverse=True))
        self.running[node].clear()
        self.life[node] += 1
        self.push(now + self.settings.failures.replacement_seconds, "rise", node)
        for _ in range(len(self.idle)):
            other, life = self.idle.popleft()
            if life == self.life[other]:
                self.start_next(now, other)

    def rise(self, now: float, node: int, _task: int) -> None:
        for _ in range(self.cluster.slots):
            self.start_next(now, node)
        self.plan_failure(now, node)


def _stream_rate(store: Store) -> float:
    return store.stream_bytes_per_second * store.streams


def simulate(works: Sequence[Work], settings: Settings, seed: int = 0) -> Run:
    """Simulates `works` in the given order.

    Raises:
        ValueError: if the cluster or the store has no capacity, or machines fail too
            often to complete the tasks.
    """
    if settings.cluster.nodes < 1:
        raise ValueError("a cluster has at least one node")
    return _Job(works, settings, seed).run()
