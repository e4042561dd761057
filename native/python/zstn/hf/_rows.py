"""Selection of rows of a tensor."""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows in the notation ``5``, ``5..7`` or ``5:7``. Either end may be omitted;
    negative numbers count from the last row."""

    start: int | None
    end: int | None

    @classmethod
    def parse(cls, text: str) -> Rows:
        match = re.fullmatch(r"(-?\d+)?(?:(\.\.|:)(-?\d+)?)?", text.strip())
        if match is None or not (match[1] or match[2]):
            raise argparse.ArgumentTypeError("write a row like 5 or several like 100..200")
        start = int(match[1]) if match[1] else None
        if match[2]:
            return cls(start, int(match[3]) if match[3] else None)
        assert start is not None
        return cls(start, start + 1 if start != -1 else None)

    def within(self, count: int) -> slice:
        """Returns the slice of a tensor that has `count` rows.

        Raises:
            ValueError: if the tensor does not have these rows.
        """
        start = 0 if self.start is None else self.start + (count if self.start < 0 else 0)
        end = count if self.end is None else self.end + (count if self.end < 0 else 0)
        if not 0 <= start <= end <= count:
            raise ValueError(f"there are no rows {start}..{end}: the tensor has {count}")
        return slice(start, end)
