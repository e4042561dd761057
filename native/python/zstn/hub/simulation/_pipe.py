"""A shared resource with a limited rate."""

from __future__ import annotations


class Pipe:
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
