"""Something that all tasks share, and that does so much in a second."""

from __future__ import annotations


class Pipe:
    """A limit. Those who come take their turn; each leaves when all before it and
    itself are through."""

    __slots__ = ("_free_at", "_rate", "amount")

    def __init__(self, rate: float) -> None:
        if not rate > 0:
            raise ValueError("a limit has to be above 0")
        self._rate = rate
        self._free_at = 0.0
        #: All that went through.
        self.amount = 0.0

    def pass_through(self, now: float, amount: float) -> float:
        """Returns the time at which `amount` is through that came at `now`."""
        self.amount += amount
        self._free_at = max(now, self._free_at) + amount / self._rate
        return self._free_at

    @property
    def busy_seconds(self) -> float:
        return self.amount / self._rate
