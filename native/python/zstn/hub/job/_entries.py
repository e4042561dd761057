"""Reading many entries of finished work at once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ... import _native

#: Number of entries that are read at the same time.
_READERS = 16


def keys(results: _native.Results, folder: str) -> set[str]:
    """Returns the keys that have an entry in ``done`` or ``failed``, from one listing.
    """
    return {
        name.removesuffix(".json")
        for name, _, _ in results.files(folder)
        if name.endswith(".json")
    }


def read(get: Callable[[str], str | None], wanted: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Returns the entries of those keys that have one, by key. `get` is `Results.done`
    or `Results.failed`."""
    with ThreadPoolExecutor(_READERS) as pool:
        texts = list(pool.map(get, wanted))
    entries = (json.loads(text) for text in texts if text is not None)
    return {entry["key"]: entry for entry in entries}
