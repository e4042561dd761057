"""Sizes in the notation of the command line."""

from __future__ import annotations

import argparse
import re

_SHIFTS = {"": 0, "B": 0, "K": 10, "KB": 10, "KIB": 10, "M": 20, "MB": 20, "MIB": 20,
           "G": 30, "GB": 30, "GIB": 30, "T": 40, "TB": 40, "TIB": 40}  # fmt: skip


def size(text: str) -> int:
    """Returns the number of bytes of a size like ``512M`` or ``2GiB``. Units are powers of
    1024, as in the command line of `zstn`.

    Raises:
        argparse.ArgumentTypeError: if the text is not a size.
    """
    number = parse(text)
    if number is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size; give one like 512M or 2GiB")
    return number


def parse(text: str) -> int | None:
    """Returns the number of bytes of a size; `None` if the text is not a size."""
    found = re.fullmatch(r"([0-9]{1,18})([A-Za-z]*)", text.strip())
    shift = _SHIFTS.get(found[2].upper()) if found else None
    if found is None or shift is None:
        return None
    return int(found[1]) << shift
