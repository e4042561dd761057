"""Runs: all rows of a plan through an executor."""

from __future__ import annotations

import heapq
import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from ... import _native
from ..._errors import ZstnError
from ._entries import keys, read
from ._limits import limits, unheld
from ._row import Row, share
from ._state import state
from ._task import Outcome, Task
from ._work import put_failed
from .executors import Executor, Node

#: Seconds until a failure that may pass is tried again; each time twice as long.
_FIRST_WAIT_SECONDS = 2.0
_LONGEST_WAIT_SECONDS = 300.0
#: Seconds that a task waits for a machine that holds it, when one has gone.
_NODE_WAIT_SECONDS = 60.0


@dataclass(frozen=True)
class Settings:
    """What a run is made with."""

    source: str
    store: str
    effort: str = "balanced"
    extended: bool = False
    #: Attempts at a row before it is left for another run.
    attempts: int = 4
    #: Tries rows again that were refused before.
    retry_refused: bool = False
    #: The share of the plan: the number of the share, from 0, and that of all.
    shard: tuple[int, int] = (0, 1)
    #: Threads for each row.
    threads: int = 1
    #: Seconds that running tasks have when the run is stopped.
    grace: float = 25.0
    first_wait: float = _FIRST_WAIT_SECONDS


@dataclass
class Summary:
    """What became of the rows, by content: each is counted once."""

    packed: int = 0
    known: int = 0
    refused: int = 0
    retry: int = 0
    left: int = 0
    read_bytes: int = 0
    packed_bytes: int = 0
    #: The most memory of a process that packed.
    peak_bytes: int = 0
    #: Attempts that ended without a result: processes or machines that went away.
    lost: int = 0
    seconds: float = 0.0

    @property
    def status(self) -> int:
        """The exit status: 0 if all is done, 1 if rows were refused, 3 if another run
        could do more."""
        if self.retry + self.left:
            return 3
        return 1 if self.refused else 0


#: Called with every outcome, and with the row that it is of.
Watcher = Callable[[Row, Outcome, Summary], None]


@dataclass(order=True)
class _Waiting:
    """A row in a queue: what is due first, of these the largest."""

    due: float
    order: int
    row: Row = field(compare=False)
    attempt: int = field(compare=False)


class Run:
    """Works on a plan. It can be stopped and killed at any time; the next run goes on."""

    def __init__(
        self,
        rows: Iterable[Row],
        executor: Executor,
        settings: Settings,
        watch: Watcher = lambda *_: None,
    ) -> None:
        index, count = settings.shard
        self._rows = share(rows, index, count)
        self._executor = executor
        self._settings = settings
        self.watch = watch
        self._results = _native.Results(settings.store)
        self.summary = Summary()
        self._is_stopping = False
        self._done: set[str] = set()
        self._refused: set[str] = set()
        #: Keys of the work of this run.
        self._own: set[str] = set()
        self._ready: list[_Waiting] = []
        #: Rows that wait for a base, by its key.
        self._blocked: dict[str, list[Row]] = {}
        self._running: dict[str, tuple[Row, int]] = {}

    def stop(self) -> None:
        """Asks the run to give back what it is working on, and to end. May be called
        by a signal handler."""
        self._is_stopping = True

    @property
    def total(self) -> int:
        """The number of rows with different keys."""
        return len(self._rows)

    def run(self) -> Summary:
        """Works until every row is done, refused or given up."""
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
                # Of processes that have ended without a word.
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
        """Finds out what is left to do, from lists of what is there. A row is done if its
        packed file is there with the length that its entry records."""
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
        # Bases first: rows with fewer bases cannot need those with more.
        for row in sorted(todo, key=lambda row: len(row.bases)):
            reason = refused.get(row.key)
            if reason is None:
                reason = unheld(self._task(row, 1), nodes)
            if reason is None:
                reason = self._base_refused(row)
            if reason is not None:
                if row.key not in refused:
                    put_failed(self._results, row, "refused", reason)
                self._count(row, Outcome(row.key, "refused", reason))
            else:
                self._begin_or_block(row)

    def _begin_or_block(self, row: Row) -> None:
        """Lets a row begin, unless a base of it is work of this run that is not done."""
        for key in row.bases:
            if key in self._own and key not in self._done:
                self._blocked.setdefault(key, []).append(row)
                return
        self._push(row, 1, 0.0)

    def _refusals(self, rows: Sequence[Row], failed: set[str]) -> dict[str, str]:
        """Returns the reasons of rows that were refused before."""
        found = [row.key for row in rows if row.key in failed]
        entries = read(self._results.failed, found).values()
        return {
            entry["key"]: entry["reason"] for entry in entries if entry["class"] == "refused"
        }

    def _base_refused(self, row: Row) -> str | None:
        gone = [key for key in row.bases if key in self._refused]
        if not gone:
            return None
        return f"its base {gone[0]} was refused; make the plan again for another base"

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
        """Holds a row back that a machine held when the run began."""
        reason = "the machines that held it have gone"
        if attempt >= self._settings.attempts:
            put_failed(self._results, row, "retry", reason)
            self._count(row, Outcome(row.key, "retry", reason))
            return
        self._push(row, attempt + 1, now + _NODE_WAIT_SECONDS)

    def _pause(self) -> float:
        """Returns the seconds to wait for outcomes."""
        if self._running or not self._ready:
            return 0.5
        return min(max(self._ready[0].due - time.monotonic(), 0.0), 0.5)

    def _end(self, outcome: Outcome) -> None:
        """Takes the outcome of an attempt."""
        outcome = self._recorded(outcome)
        row, attempt = self._running.pop(outcome.key)
        self.summary.read_bytes += outcome.read_bytes
        self.summary.peak_bytes = max(self.summary.peak_bytes, outcome.peak_bytes)
        if outcome.state == "given_back":
            # Left for this run, if it goes on without that process, or the next one.
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
        interrupted, or else `outcome`."""
        if outcome.state not in ("given_back", "lost"):
            return outcome
        try:
            return self._from_store(outcome)
        except (ZstnError, OSError):
            # The store does not answer now. The row is tried again, and its entry is
            # found then.
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
        """Counts the last outcome of a row, and lets rows begin that it is a base of."""
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
            # Another run may do it.
            return
        for row in self._blocked.pop(base.key, []):
            reason = self._base_refused(row)
            if reason is None:
                self._begin_or_block(row)
                continue
            put_failed(self._results, row, "refused", reason)
            self._count(row, Outcome(row.key, "refused", reason))
