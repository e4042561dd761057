"""Aligned tables without lines, and readable numbers."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence

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
