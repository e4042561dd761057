"""Restoring files of a plan from a store."""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path

from ... import _native
from ..._checkpoint import unpack
from ..._errors import ZstnError
from ._bases import MissingBaseError, RefusedBaseError, base_paths
from ._row import Row


_REPAIR = "`python -m zstn.hub check --repair` and another run pack it again"


def restore(row: Row, store: str, output: str | os.PathLike[str], threads: int = 0) -> None:
    """Restores the file of a row, and compares it with the SHA-256 in the plan. The
    bases of a delta come from the cache for packed bases (`zstn.hub.cache_folder`).

    If `output` already exists with these bytes, it remains.

    Raises:
        FileNotFoundError: if the row is not done, or its packed file is missing.
        ZstnError: with the code ``"differs"`` if the SHA-256 differs, or ``"exists"`` if
            another file exists at `output`.
    """
    results = _native.Results(store, existing=True)
    if results.done(row.key) is None:
        raise FileNotFoundError(f"{row.place} is not packed in {store}; run the plan first")
    output = Path(output)
    if output.is_symlink() or output.exists():
        if output.is_file() and _sha256(output) == row.sha256:
            return
        raise ZstnError(
            f"{row.place}: {output} exists already with other bytes; choose another folder, or "
            "move it away",
            "exists",
        )
    output.parent.mkdir(parents=True, exist_ok=True)
    packed = results.at("packed", row.packed_name)
    part = output.with_name(f".{output.name}.{os.getpid()}.part")
    try:
        try:
            bases = base_paths(results, row) if row.bases else None
            unpack(packed, part, base=bases, threads=threads)
        except FileNotFoundError as error:
            raise FileNotFoundError(
                f"{row.place}: its packed file is gone: {error}; run the plan again"
            ) from error
        except (MissingBaseError, RefusedBaseError) as error:
            raise ZstnError(f"{row.place}: {error}", "needs_base") from error
        except ZstnError as error:
            raise ZstnError(f"{row.place}: {error}; {_REPAIR}", error.code) from error
        digest = _sha256(part)
        if digest != row.sha256:
            raise ZstnError(
                f"{row.place}: the restored file has the SHA-256 {digest}, "
                f"but the plan lists {row.sha256}; {_REPAIR}",
                "differs",
            )
        os.replace(part, output)
    finally:
        with contextlib.suppress(FileNotFoundError):
            part.unlink()


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
