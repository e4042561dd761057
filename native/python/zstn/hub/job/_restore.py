"""Restoring files of a plan from a store."""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path

from ... import _native
from ..._checkpoint import unpack
from ..._errors import ZstnError
from ._bases import base_paths
from ._row import Row


def restore(row: Row, store: str, output: str | os.PathLike[str], threads: int = 0) -> None:
    """Restores the file of a row, and compares it with the SHA-256 of the plan. The
    bases of a difference come from the cache for packed bases (`zstn.hub.cache_folder`).

    Raises:
        FileNotFoundError: if the row is not done.
        ZstnError: with the code ``"differs"`` if the SHA-256 is another.
    """
    results = _native.Results(store)
    if results.done(row.key) is None:
        raise FileNotFoundError(f"{row.place} is not packed in {store}; run the plan first")
    output = Path(output)
    output.parent.mkdir(parents=True, exist_ok=True)
    packed = results.at("packed", row.packed_name)
    bases = base_paths(results, row) if row.bases else None
    part = output.with_name(f".{output.name}.{os.getpid()}.part")
    try:
        unpack(packed, part, base=bases, threads=threads)
        with open(part, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if digest != row.sha256:
            raise ZstnError(
                f"{row.place}: the restored file has the SHA-256 {digest}, but the plan says "
                f"{row.sha256}; remove {packed} and its entry, and run the plan again",
                "differs",
            )
        os.replace(part, output)
    finally:
        with contextlib.suppress(FileNotFoundError):
            part.unlink()
