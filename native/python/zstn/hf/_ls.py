"""The command ``hf zstn ls``."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Iterable, Sized
from concurrent.futures import ThreadPoolExecutor

from .. import _native
from .._errors import ZstnError
from .._reader import Reader, open
from ._output import ratio, say, size, table
from ._repository import Hub, Place

#: Number of indexes that are read at the same time.
_READS = 8


def run(options: Namespace) -> None:
    place = Place.parse(options.place, options.revision, options.repo_type)
    hub = Hub()
    if place.path is None:
        _list_files(hub, place, options)
    else:
        _list_tensors(hub, place, options)


def _list_files(hub: Hub, place: Place, options: Namespace) -> None:
    info = hub.info(place)
    sizes = {one.rfilename: one.size or 0 for one in info.siblings or []}
    packed = [name for name in sizes if name.endswith(".zstn")]
    with ThreadPoolExecutor(_READS) as pool:
        addresses = (place.address(name, info.sha) for name in packed)
        found = pool.map(lambda address: _original_size(address, hub.token), addresses)
        originals = dict(zip(packed, found, strict=True))
    if options.json:
        files = [
            {"path": name, "bytes": count, "original_bytes": originals.get(name)}
            for name, count in sizes.items()
        ]
        _print_json({"repository": str(place), "commit": info.sha, "files": files})
        return
    rows = []
    for name, count in sizes.items():
        original = originals.get(name)
        rows.append((
            name,
            size(count),
            "" if original is None else size(original),
            "" if original is None else ratio(original, count),
        ))  # fmt: skip
    _print_lines(table(["file", ">size", ">original", ">ratio"], rows))
    if packed:
        known = [name for name in packed if originals[name] is not None]
        before = sum(originals[name] or 0 for name in known)
        after = sum(sizes[name] for name in known)
        text = f"{_count(packed, 'packed file')}, {size(before)} in {size(after)}"
        say(f"{text} ({ratio(before, after)})", options.quiet)


def _original_size(address: str, token: str | None) -> int | None:
    """Returns the length of the original of a packed file; `None` if it cannot be read.
    """
    try:
        with open(address, token=token) as reader:
            return _native.SafetensorsView(reader._native, 0).size
    except ZstnError:
        return None


def _list_tensors(hub: Hub, place: Place, options: Namespace) -> None:
    assert place.path is not None
    with open(place.address(place.path), token=hub.token) as reader:
        if options.json:
            tensors = [
                {
                    "name": one.name,
                    "dtype": one.dtype,
                    "shape": list(one.shape),
                    "original_bytes": one.original_nbytes,
                    "packed_bytes": one.stored_nbytes,
                }
                for one in reader.values()
            ]
            _print_json({"file": reader.name, "kind": reader.kind, "tensors": tensors})
            return
        _print_tensors(reader, options.quiet)


def _print_tensors(reader: Reader, quiet: bool) -> None:
    rows = [
        (
            one.name,
            one.dtype,
            "×".join(map(str, one.shape)) or "scalar",
            size(one.original_nbytes),
            size(one.stored_nbytes),
            ratio(one.original_nbytes, one.stored_nbytes),
        )
        for one in reader.values()
    ]
    _print_lines(table(["name", "dtype", "shape", ">size", ">stored", ">ratio"], rows))
    before = sum(one.original_nbytes for one in reader.values())
    say(f"{_count(rows, 'tensor')}, {size(before)}", quiet)


def _print_lines(lines: Iterable[str]) -> None:
    for line in lines:
        print(line)


def _print_json(value: object) -> None:
    print(json.dumps(value, indent=2))


def _count(rows: Sized, noun: str) -> str:
    return f"{len(rows)} {noun}{'' if len(rows) == 1 else 's'}"
