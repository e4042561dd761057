"""Validation of options before any work is done."""

from __future__ import annotations

import operator
from typing import Any

from ._sizes import parse

_EFFORTS = ("fast", "balanced", "max")


def check_effort(effort: Any) -> str:
    if not isinstance(effort, str):
        raise TypeError(f"effort must be a string, not {effort!r} of type {type(effort).__name__}")
    if effort not in _EFFORTS:
        raise ValueError(f'effort is "fast", "balanced" or "max", not {effort!r}')
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
        raise TypeError(f"{name} is a number, not {value!r} of type {type(value).__name__}") from None
    if not least <= number <= most:
        raise ValueError(f"{name} is a number from {least} to {most}, not {value!r}")
    return number


def size(name: str, value: Any) -> int | None:
    """Returns a size in bytes, given as a number or as a text such as ``"512M"``."""
    if not isinstance(value, str):
        return count(name, value, 1)
    number = parse(value)
    if not number:
        raise ValueError(f'{name} is a number of bytes, or a string like "512M" or "2GiB", not {value!r}')
    return count(name, number, 1)


def flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{name} is True or False, not {value!r}")
    return value


def seconds(name: str, value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not hasattr(value, "__float__"):
        raise TypeError(f"{name} is a number of seconds, not {value!r}")
    number = float(value)
    if not 0 < number < 1e9:
        raise ValueError(f"{name} is a number of seconds above 0, not {value!r}")
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
            raise TypeError(f"{name} must be a dictionary of strings; look at {key!r}")
    return result
