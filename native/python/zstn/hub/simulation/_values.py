"""Settings given by name, such as ``store.reads_per_second=44000``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from typing import Any

from ._census import Census
from ._settings import Settings


#: Settings that may be 0. All others are divisors or must be positive counts.
_MAY_BE_ZERO = frozenset(
    {
        "census.duplicates",
        "census.with_base",
        "failures.node_hours",
        "failures.replacement_seconds",
        "failures.task",
        "speeds.ratio",
        "speeds.ratio_with_base",
        "speeds.seconds_per_task",
        "store.fixed_reads",
        "store.fixed_writes",
        "store.latency",
    }
)


def names() -> Iterator[tuple[str, float]]:
    """Yields the name of every setting with its default."""
    for group, values in _groups(Settings(), Census()).items():
        for field in fields(values):
            yield f"{group}.{field.name}", getattr(values, field.name)


def with_values(
    settings: Settings, census: Census, assignments: Sequence[str]
) -> tuple[Settings, Census]:
    """Returns the census and the settings with values of the form ``NAME=VALUE``
    applied.

    Raises:
        ValueError: if a name is not a setting, or a value is not a number.
    """
    known = dict(names())
    groups = _groups(settings, census)
    for assignment in assignments:
        name, sign, text = assignment.partition("=")
        if not sign or name not in known:
            raise ValueError(
                f"{assignment!r} does not set anything: docs/simulation.md has the names, "
                "such as store.reads_per_second=44000"
            )
        group, field = name.split(".")
        groups[group] = replace(groups[group], **{field: _number(name, text, known[name])})
    census = groups.pop("census")
    return replace(settings, **groups), census


def _number(name: str, text: str, default: float) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"{name} has to be a number, not {text!r}") from None
    may_be_zero = name in _MAY_BE_ZERO or name.startswith("prices.")
    if not 0 <= value < float("inf") or not (value or may_be_zero):
        least = "0 or above" if may_be_zero else "above 0"
        raise ValueError(f"{name} has to be {least}, not {text}")
    if isinstance(default, int):
        if value != int(value):
            raise ValueError(f"{name} has to be a whole number, not {text}")
        return int(value)
    return value


def _groups(settings: Settings, census: Census) -> dict[str, Any]:
    groups = {field.name: getattr(settings, field.name) for field in fields(settings)}
    return {**groups, "census": census}
