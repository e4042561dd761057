"""Runs, which process the rows of a plan through an executor, and the resources that each
row needs."""

from __future__ import annotations

import heapq
import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from zstn import ZstnError, _native

from ._row import Row, share
from ._store import base_place, keys, read, state
from ._task import Limits, Outcome, Task
from ._work import put_failed
from .executors import Executor, Node

#: Seconds before a transient failure is retried; doubled after each attempt.
_FIRST_WAIT_SECONDS = 2.0
_LONGEST_WAIT_SECONDS = 300.0
#: Seconds that a task waits for a suitable machine after one has left the cluster.
_NODE_WAIT_SECONDS = 60.0

#: Minimum and maximum memory of the packer. Larger tensors are packed in blocks.
_LEAST_BYTES = 64 << 20
_MOST_BYTES = 1 << 30


@dataclass(frozen=True)
class Settings:
    """The settings of a run, which apply to all of its rows."""

    source: str
    store: str
    effort: str = "balanced"
    extended: bool = False
    #: Number of attempts before a row is left for another run.
    attempts: int = 4
    #: Whether rows that were refused before are tried again.
    retry_refused: bool = False
    #: The share of the plan that this run processes: its number, from 0, and the number
    #: of shares.
    shard: tuple[int, int] = (0, 1)
    #: Threads for each row.
    threads: int = 1
    #: Seconds that running tasks have to end when the run is stopped.
    grace: float = 25.0
    first_wait: float = _FIRST_WAIT_SECONDS


@dataclass
class Summary:
    """Totals of the rows by outcome; rows with the same content are counted once."""

    packed: int = 0
    known: int = 0
    refused: int = 0
    retry: int = 0
    left: int = 0
    read_bytes: int = 0
    packed_bytes: int = 0
    #: Peak memory in bytes of a process that packed.
    peak_bytes: int = 0
    #: Attempts that ended without a result because their process or machine was lost.
    lost: int = 0
    seconds: float = 0.0

    @property
    def status(self) -> int:
        """The exit status: 0 if all rows are done, 1 if rows were refused, 3 if another
        run could do more."""
        if self.retry + self.left:
            return 3
        return 1 if self.refused else 0


#: Receives every outcome with its row and the current totals.
Watcher = Callable[[Row, Outcome, Summary], None]


@dataclass(order=True)
class _Waiting:
    """A row in the queue, ordered by due time, then by descending size."""

    due: float
    order: int
    row: Row = field(compare=False)
    attempt: int = field(compare=False)


class Run:
    """Processes a plan. It can be stopped or killed at any time; the next run
    continues."""

    def __init__(
        self,
        rows: Iterable[Row],
        executor: Executor,
        settings: Settings,
        watch: Watcher = lambda *_: None,
    ) -> None:
        index, count = settings.shard
        self._rows = share(rows, index, count)
        self._places = {row.key: row.place for row in self._rows}
        self._executor = executor
        self._settings = settings
        self.watch = watch
        self._results = _native.Results(settings.store)
        self.summary = Summary()
        self._is_stopping = False
        self._done: set[str] = set()
        self._refused: set[str] = set()
        #: Keys of the rows that this run has to process.
        self._own: set[str] = set()
        self._ready: list[_Waiting] = []
        #: Rows that wait for a base, by the key of the base.
        self._blocked: dict[str, list[Row]] = {}
        self._running: dict[str, tuple[Row, int]] = {}

    def stop(self) -> None:
        """Stops the run after it has given back the tasks in progress. A signal
        handler may call this method."""
        self._is_stopping = True

    @property
    def total(self) -> int:
        """The number of rows with different keys."""
        return len(self._rows)

    def run(self) -> Summary:
        """Works until every row is done or refused, or all its attempts have failed."""
        begun = time.monotonic()
        try:
            self._begin()
            while (self._ready or self._running) and not self._is_stopping:
                self._submit()
                for outcome in self._executor.wait(self._pause()):
                    self._end(outcome)
            if self._is_stopping:
                for outcome in self._executor.stop(self._settings.grace):
                    self._end(outcome)
                # The processes of the tasks that are left have ended without reporting an outcome.
                for key in list(self._running):
                    outcome = self._recorded(Outcome(key, "given_back"))
                    if outcome.state != "given_back":
                        self._end(outcome)
        finally:
            self._executor.close()
        blocked = sum(map(len, self._blocked.values()))
        self.summary.left += len(self._ready) + blocked + len(self._running)
        self.summary.seconds = time.monotonic() - begun
        return self.summary

    def _begin(self) -> None:
        """Finds the rows that remain to be done, from listings of the results. A row is
        done if its packed file exists with the length that its entry records."""
        found = state(self._results, self._rows)
        self._done = set(found.done)
        todo = []
        for row in self._rows:
            if row.key in self._done:
                self._count(row, Outcome(row.key, "known"))
            else:
                todo.append(row)
        failed = keys(self._results, "failed")
        refused = {} if self._settings.retry_refused else self._refusals(todo, failed)
        nodes = self._executor.capacity()
        self._own = {row.key for row in todo}
        # Bases come first: a row only depends on rows with fewer bases than it has.
        for row in sorted(todo, key=lambda row: len(row.all_bases)):
            reason = refused.get(row.key)
            if reason is None:
                reason = unheld(self._task(row, 1), nodes)
            if reason is None:
                reason = self._base_refused(row)
            if reason is not None and row.key not in refused:
                put_failed(self._results, row, "refused", reason)
            # This is not recorded, because another plan may pack the base.
            reason = reason or self._base_unplanned(row)
            if reason is not None:
                self._count(row, Outcome(row.key, "refused", reason))
            else:
                self._begin_or_block(row)

    def _begin_or_block(self, row: Row) -> None:
        """Queues a row, or blocks it while one of its bases still has to be packed by
        this run."""
        for base in row.all_bases:
            if base.key in self._own and base.key not in self._done:
                self._blocked.setdefault(base.key, []).append(row)
                return
        self._push(row, 1, 0.0)

    def _refusals(self, rows: Sequence[Row], failed: set[str]) -> dict[str, str]:
        """Returns the reasons why rows were refused in earlier runs."""
        found = [row.key for row in rows if row.key in failed]
        entries = read(self._results.failed, found).values()
        return {
            entry["key"]: entry["reason"] for entry in entries if entry["class"] == "refused"
        }

    def _base_refused(self, row: Row) -> str | None:
        gone = [base.key for base in row.all_bases if base.key in self._refused]
        if not gone:
            return None
        return (
            f"its base {self._places[gone[0]]} was refused; make the plan again for another base"
        )

    def _base_unplanned(self, row: Row) -> str | None:
        """Returns the reason why a row cannot be done if one of its bases is not packed,
        or has been lost, and this plan does not contain it."""
        for key in (base.key for base in row.all_bases if base.key not in self._places):
            entry = self._results.done(key)
            if entry is None or self._results.packed(entry) is None:
                return (
                    f"its base {base_place(self._results, key)} is not packed, and this plan does "
                    "not contain it; run the plan that does, or make this one again without --known"
                )
        return None

    def _task(self, row: Row, attempt: int) -> Task:
        settings = self._settings
        return Task(
            row.to_dict(),
            settings.source,
            settings.store,
            settings.effort,
            settings.extended,
            limits(row, settings.threads),
            settings.retry_refused,
            attempt,
            {
                base.key: self._places[base.key]
                for base in row.all_bases
                if base.key in self._places
            },
        )

    def _push(self, row: Row, attempt: int, due: float) -> None:
        heapq.heappush(self._ready, _Waiting(due, -row.size, row, attempt))

    def _submit(self) -> None:
        now = time.monotonic()
        nodes: Sequence[Node] | None = None
        while self._ready and self._ready[0].due <= now:
            if len(self._running) >= self._executor.slots():
                return
            nodes = self._executor.capacity() if nodes is None else nodes
            waiting = heapq.heappop(self._ready)
            row, attempt = waiting.row, waiting.attempt
            task = self._task(row, attempt)
            if not any(node.holds(task) for node in nodes):
                self._wait_for_node(row, attempt, now)
                continue
            self._running[row.key] = (row, attempt)
            self._executor.submit(task)

    def _wait_for_node(self, row: Row, attempt: int, now: float) -> None:
        """Delays a row that no machine can hold, although one could when the run began.
        """
        reason = "the machines that were large enough are gone"
        if attempt >= self._settings.attempts:
            put_failed(self._results, row, "retry", reason)
            self._count(row, Outcome(row.key, "retry", reason))
            return
        self._push(row, attempt + 1, now + _NODE_WAIT_SECONDS)

    def _pause(self) -> float:
        """Returns the number of seconds to wait for outcomes."""
        if self._running or not self._ready:
            return 0.5
        return min(max(self._ready[0].due - time.monotonic(), 0.0), 0.5)

    def _end(self, outcome: Outcome) -> None:
        """Handles the outcome of an attempt."""
        outcome = self._recorded(outcome)
        row, attempt = self._running.pop(outcome.key)
        self.summary.read_bytes += outcome.read_bytes
        self.summary.peak_bytes = max(self.summary.peak_bytes, outcome.peak_bytes)
        if outcome.state == "given_back":
            # The row is left for this run, if it continues without that process, or
            # for the next run.
            self._push(row, attempt, time.monotonic())
            return
        if outcome.state == "lost":
            self.summary.lost += 1
            reason = f"{outcome.reason}, {attempt} times" if attempt > 1 else outcome.reason
            outcome = replace(outcome, state="retry", reason=reason)
            if attempt >= self._settings.attempts:
                put_failed(self._results, row, "retry", reason)
        if outcome.state == "retry" and attempt < self._settings.attempts:
            wait = min(self._settings.first_wait * 2 ** (attempt - 1), _LONGEST_WAIT_SECONDS)
            self._push(row, attempt + 1, time.monotonic() + wait)
            self.watch(row, outcome, self.summary)
            return
        self._count(row, outcome)

    def _recorded(self, outcome: Outcome) -> Outcome:
        """Returns the outcome that a task recorded in the store before its process was
        interrupted; otherwise `outcome`."""
        if outcome.state not in ("given_back", "lost"):
            return outcome
        try:
            return self._from_store(outcome)
        except (ZstnError, OSError):
            # The store does not respond. The row is tried again, which will find its
            # entry.
            return outcome

    def _from_store(self, outcome: Outcome) -> Outcome:
        row, _ = self._running[outcome.key]
        done = self._results.packed(json.dumps(row.to_dict()))
        if done is not None:
            packed_bytes = json.loads(done)["packed_size"]
            return replace(
                outcome, state="packed", reason="", read_bytes=row.size, packed_bytes=packed_bytes
            )
        failed = self._results.failed(outcome.key)
        if failed is not None and not self._settings.retry_refused:
            entry = json.loads(failed)
            if entry["class"] == "refused":
                return replace(outcome, state="refused", reason=entry["reason"])
        return outcome

    def _count(self, row: Row, outcome: Outcome) -> None:
        """Counts the final outcome of a row, and queues the rows that waited for it as
        a base."""
        summary = self.summary
        if outcome.state == "packed":
            summary.packed += 1
            summary.packed_bytes += outcome.packed_bytes
        elif outcome.state == "known":
            summary.known += 1
        elif outcome.state == "refused":
            summary.refused += 1
            self._refused.add(row.key)
        else:
            summary.retry += 1
        if outcome.state in ("packed", "known"):
            self._done.add(row.key)
        self.watch(row, outcome, summary)
        self._unblock(row)

    def _unblock(self, base: Row) -> None:
        if base.key not in self._done and base.key not in self._refused:
            # The base failed for a transient reason, so another run may pack it.
            return
        for row in self._blocked.pop(base.key, []):
            reason = self._base_refused(row)
            if reason is None:
                self._begin_or_block(row)
                continue
            put_failed(self._results, row, "refused", reason)
            self._count(row, Outcome(row.key, "refused", reason))


def limits(row: Row, threads: int = 1) -> Limits:
    """Returns the resources for a row: memory for its largest tensor, its intermediate
    data and its packed form; disk space for the downloaded file and the packed one. A
    delta also needs each packed base and each restored base, which is about as long as
    the file. Of a chain of bases, two are restored at the same time."""
    largest = row.size if row.largest_tensor is None else row.largest_tensor
    packer_bytes = min(max(3 * largest, _LEAST_BYTES), _MOST_BYTES)
    bases = sum(2 if base.bases else 1 for base in row.bases)
    return Limits(
        memory_bytes=packer_bytes + Limits.PROCESS_BYTES,
        scratch_bytes=2 * (1 + bases) * row.size,
        threads=threads,
    )


def unheld(task: Task, nodes: Sequence[Node]) -> str | None:
    """Returns the reason why no machine can work on a task; `None` if one can."""
    if any(node.holds(task) for node in nodes):
        return None
    needs, most = task.limits, max(nodes, key=lambda node: node.memory_bytes, default=None)
    if most is None:
        has = "there is none"
    else:
        has = f"the largest has {_mebibytes(most.memory_bytes)} of memory"
        if most.scratch_bytes is not None:
            has += f", {_mebibytes(most.scratch_bytes)} for temporary files"
        has += f" and {most.threads} processors"
    return (
        f"no machine is large enough: it needs {_mebibytes(needs.memory_bytes)} of memory, "
        f"{_mebibytes(needs.scratch_bytes)} for temporary files and {needs.threads} "
        f"processors, and {has}; run it on a larger one with --retry-failed"
    )


def _mebibytes(count: int) -> str:
    return f"{(count + (1 << 20) - 1) >> 20} MiB"
