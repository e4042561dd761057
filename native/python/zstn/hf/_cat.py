"""The command ``hf zstn cat``, and the selection of rows of a tensor."""

from __future__ import annotations

import argparse
import re
import sys
from argparse import Namespace
from dataclasses import dataclass
from typing import Any

from .._errors import ZstnError
from .._reader import open
from .._slices import plan
from ._repository import Hub, Place


def run(options: Namespace) -> None:
    place = Place.parse(options.place, options.revision, options.repo_type)
    if place.path is None:
        raise ZstnError(f"{options.place} names no file; `hf zstn ls {place}` lists them")
    if sys.stdout.isatty() and not options.force:
        raise ZstnError("the bytes of a tensor are not for a terminal; write them to a file or "
                        "a pipe, or give --force")  # fmt: skip
    with open(place.address(place.path), token=Hub().token, threads=options.threads) as reader:
        info = reader[options.tensor]
        memory: Any
        if options.rows is None:
            memory = reader.read(info.name)
        else:
            if not info.shape:
                raise ZstnError(f"{info.name} is a single value and has no rows")
            planned = plan(options.rows.within(info.shape[0]), info.shape)
            assert planned is not None
            memory = reader._native.read_slice(info.name, planned.picks)
    sys.stdout.buffer.write(memory)
    sys.stdout.buffer.flush()


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
            raise argparse.ArgumentTypeError("write one row, like 5, or a range, like 100..200")
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
