"""Validation of options before any work is done, and sizes in the notation of the command
line."""

from __future__ import annotations

import argparse
import operator
import re
from typing import Any

_EFFORTS = ("fast", "balanced", "max")


def check_effort(effort: Any) -> str:
    if not isinstance(effort, str):
        raise TypeError(f"effort must be a string, not {effort!r} of type {type(effort).__name__}")
    if effort not in _EFFORTS:
        raise ValueError(f'effort must be "fast", "balanced" or "max", not {effort!r}')
    return effort


def count(name: str, value: Any, least: int = 0, most: int = (1 << 63) - 1) -> int | None:
    """Returns an integer within the limits, or `None`."""
    if value is None:
        return None
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be a number, not {value!r} of type {type(value).__name__}") from None
    if not least <= number <= most:
        raise ValueError(f"{name} must be a number from {least} to {most}, not {value!r}")
    return number


def size(name: str, value: Any) -> int | None:
    """Returns a size in bytes, given as a number or as a text such as ``"512M"``."""
    if not isinstance(value, str):
        return count(name, value, 1)
    number = _parse_size(value)
    if not number:
        raise ValueError(f'{name} must be a number of bytes, or a string like "512M" or "2GiB", not {value!r}')
    return count(name, number, 1)


def flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, not {value!r}")
    return value


def seconds(name: str, value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not hasattr(value, "__float__"):
        raise TypeError(f"{name} must be a number of seconds, not {value!r}")
    number = float(value)
    if not 0 < number < 1e9:
        raise ValueError(f"{name} must be a number of seconds above 0, not {value!r}")
    return number


def text(name: str, value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        # The message omits the value, which may be a secret.
        raise TypeError(f"{name} must be a string, not of type {type(value).__name__}")
    return value


def texts(name: str, value: Any) -> dict[str, str]:
    """Returns a dictionary of strings."""
    if value is None:
        return {}
    if not hasattr(value, "items"):
        raise TypeError(f"{name} must be a dictionary of strings, not of type {type(value).__name__}")
    result = dict(value)
    for key, item in result.items():
        if not isinstance(key, str) or not isinstance(item, str):
            raise TypeError(f"{name} must be a dictionary of strings, but the entry {key!r} is not")
    return result


_SHIFTS = {"": 0, "B": 0, "K": 10, "KB": 10, "KIB": 10, "M": 20, "MB": 20, "MIB": 20,
           "G": 30, "GB": 30, "GIB": 30, "T": 40, "TB": 40, "TIB": 40}  # fmt: skip


def size_argument(text: str) -> int:
    """Returns the number of bytes of a size like ``512M`` or ``2GiB``. Units are powers of
    1024, as in the command line of `zstn`.

    Raises:
        argparse.ArgumentTypeError: if the text is not a size.
    """
    number = _parse_size(text)
    if number is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size; give one like 512M or 2GiB")
    return number


def _parse_size(text: str) -> int | None:
    """Returns the number of bytes of a size; `None` if the text is not a size."""
    found = re.fullmatch(r"([0-9]{1,18})([A-Za-z]*)", text.strip())
    shift = _SHIFTS.get(found[2].upper()) if found else None
    if found is None or shift is None:
        return None
    return int(found[1]) << shift
