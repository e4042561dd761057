"""The command ``python -m zstn_hub simulate``, and settings given by name, such as
``store.reads_per_second=44000``."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

from ._estimate import Estimate, Knee, estimate, knee
from ._measured import read_measured
from ._settings import Settings
from ._work import Census

_UNITS = {"": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "PB": 10**15}

EXAMPLES = """examples:
  python -m zstn_hub simulate
  python -m zstn_hub simulate --volume 30PB --nodes 100 --nodes 400
  python -m zstn_hub simulate --set cluster.cores=64 --set store.read_bytes_per_second=5e10
  python -m zstn_hub simulate --measured run.jsonl --json
"""

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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command, and sets `run` as its function."""
    parser.description = "Print how long a job on a whole hub takes and what it costs, by a model."
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EXAMPLES
    parser.add_argument(
        "--volume", action="append", type=_volume, metavar="BYTES",
        help="length of all files together, such as 30PB; may be repeated (1PB, 10PB, 100PB)",
    )  # fmt: skip
    parser.add_argument(
        "--nodes", action="append", type=_count, metavar="N",
        help="number of machines; may be repeated (16, 64, 256)",
    )  # fmt: skip
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", dest="values",
        help="a setting, such as store.reads_per_second=44000; docs/simulation.md has all",
    )  # fmt: skip
    parser.add_argument(
        "--measured", type=Path, metavar="FILE",
        help="take speeds and ratio from a real run: what run --json printed",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of all that is drawn (0)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Prints the estimates.

    Raises:
        ValueError: if a setting is invalid.
    """
    settings, census = Settings(), Census()
    if options.measured:
        settings = read_measured(options.measured).settings(settings)
    settings, census = with_values(settings, census, options.values)
    volumes: Sequence[float] = options.volume or [1e15, 10e15, 100e15]
    nodes: Sequence[int] = options.nodes or [16, 64, 256]
    estimates = [
        estimate(volume, census, _with_nodes(settings, count), options.seed)
        for volume in volumes
        for count in nodes
    ]
    stop = knee(census, settings, options.seed)
    if options.json:
        print(json.dumps(_object(estimates, stop, settings, census), indent=2))
    else:
        _print(estimates, stop)
    return 0


def _with_nodes(settings: Settings, nodes: int) -> Settings:
    return replace(settings, cluster=replace(settings.cluster, nodes=nodes))


def _print(estimates: Sequence[Estimate], stop: Knee) -> None:
    row = "{:>9}  {:>6}  {:>9}  {:>9}  {:>9}  {:>10}  {:>14}  {}"
    print(row.format(
        "volume", "nodes", "files", "hours", "GB/s", "cost, $", "saved, $/month", "limit"
    ))  # fmt: skip
    for found in estimates:
        print(row.format(
            _bytes(found.volume_bytes), found.nodes, f"{found.tasks:.3g}", f"{found.hours:.1f}",
            f"{found.bytes_per_second / 1e9:.1f}", f"{found.cost:.0f}",
            f"{found.saved_per_month:.0f}", f"{found.binding} ({found.used_percent})",
        ))  # fmt: skip
    rate = stop.bytes_per_second / 1e9
    print(f"It stops scaling at {stop.nodes:.0f} nodes, {rate:.1f} GB/s: {stop.limit}.")


def _object(
    estimates: Sequence[Estimate], stop: Knee, settings: Settings, census: Census
) -> dict[str, Any]:
    values = {**asdict(settings), "census": asdict(census)}
    # Each estimate has its own number of nodes, and JSON has no infinity.
    del values["cluster"]["nodes"]
    for group in values.values():
        for name, value in group.items():
            group[name] = None if value == float("inf") else value
    return {
        "estimates": [
            {**asdict(found), "binding": found.binding, "bytes_per_second": found.bytes_per_second}
            for found in estimates
        ],
        "knee": asdict(stop),
        "settings": values,
    }


def _bytes(value: float) -> str:
    for unit, size in reversed(_UNITS.items()):
        if value >= size:
            return f"{value / size:g} {unit}"
    return f"{value:g}"


def _volume(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kMGTP]?B)?", text)
    if not match or not float(match[1]) > 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a volume such as 30PB")
    return float(match[1]) * _UNITS[match[2] if match[2] in _UNITS else ""]


def _count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of nodes")
    return int(text)


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
