"""Output for people: aligned tables, readable numbers, messages and progress."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB", "EB")


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Returns the lines of a table. Columns whose heading begins with ``>`` are aligned
    to the right."""
    cells = [[heading.lstrip(">") for heading in headings]]
    cells += [[escaped(cell) for cell in row] for row in rows]
    widths = [max(map(_width, column)) for column in zip(*cells, strict=True)]
    lines = []
    for row in cells:
        parts = []
        for cell, width, heading in zip(row, widths, headings, strict=True):
            space = " " * (width - _width(cell))
            parts.append(space + cell if heading.startswith(">") else cell + space)
        lines.append("  ".join(parts).rstrip())
    return lines


def escaped(text: str) -> str:
    """Escapes control characters, so that a text cannot control the terminal."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def size(count: int) -> str:
    """Formats a size in decimal units, such as `1.23 MB` for 1,230,000 bytes."""
    if count < 1000:
        return f"{count} B"
    value, unit = float(count), 0
    while value >= 999.5 and unit + 1 < len(_UNITS):
        value, unit = value / 1000, unit + 1
    decimals = 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{value:.{decimals}f} {_UNITS[unit]}"


def ratio(original: int, packed: int) -> str:
    """Formats the ratio of original to packed size, such as `1.222×`."""
    return f"{original / packed:.3f}×" if packed else "–"


def _width(text: str) -> int:
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)
    return len(text) + wide


@contextmanager
def bar(title: str, quiet: bool) -> Iterator[Callable[[int, int], None] | None]:
    """Shows the progress on a file, if standard error is a terminal."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from tqdm import tqdm

    with tqdm(desc=escaped(title), unit="B", unit_scale=True, leave=False) as shown:

        def report(done: int, total: int) -> None:
            shown.total = total
            shown.update(done - shown.n)

        yield report


def quieten(quiet: bool) -> None:
    """Disables huggingface_hub's progress bars if `quiet`, or without a terminal."""
    if not quiet and sys.stderr.isatty():
        return
    try:
        from huggingface_hub.utils import disable_progress_bars
    except ImportError:
        # Packing local files does not need huggingface_hub.
        return
    disable_progress_bars()


def say(text: str, quiet: bool = False) -> None:
    if quiet:
        return
    # The work continues even if its messages can no longer be read.
    with suppress(BrokenPipeError):
        print(text, file=sys.stderr, flush=True)
