"""Work on whole checkpoints."""

from __future__ import annotations

from typing import Any

from . import _native, _reports
from ._progress import watching
from ._sources import http_options


def pack(
    src: Any,
    dst: Any,
    *,
    effort: str = "balanced",
    extended: bool = False,
    threads: int = 0,
    memory: int | None = None,
    base: Any = None,
    family: Any = None,
    statistics: bool = True,
    sha256: str | None = None,
    progress: Any = None,
    overwrite: bool = True,
    token: str | None = None,
    headers: dict[str, str] | None = None,
) -> _reports.PackReport:
    """Packs a checkpoint of safetensors without losing a bit.

    A file becomes a ZSTN file, or with `base` its difference from that; a
    folder or an index of shards becomes a folder. `dst` appears when it is
    complete. The same input and options give the same bytes.

    Args:
        src: a path, an address, bytes or another input of `zstn.open`. Memory
            must not be changed meanwhile.
        dst: a path, an address, or a binary file object that a single file is
            written to while it is packed: what may still be revised, at most
            the largest packed tensor, waits in a temporary file. If an
            exception is raised, what has been written is worth nothing.
        effort: ``"fast"``, ``"balanced"`` or ``"max"``.
        extended: whether extension frames are written where they are smaller.
            zstn 0.1 and later read a file with one; z4ai does not. A stream as
            `dst` then gets nothing before the first of them, or the end.
        threads: 0 shares one per core with the process.
        memory: bytes to stay within, roughly; by default 1 GiB.
        base: a plain or packed checkpoint to store the difference from, or
            ``"auto"`` for the best one in `family`, if one is good enough.
        family: a folder of checkpoints, local or in an object store.
        statistics: whether a ZSTN file gets statistics of its tensors, which
            `Model.statistics` returns.
        sha256: that of `src`, a single file, in 64 hexadecimal digits, such as
            its Git LFS oid. It is not computed then but taken on trust:
            `unpack` and `verify` compare it, and fail if it is wrong.
        progress: `True` for a bar of tqdm, a class like ``tqdm.tqdm``, or a
            function that is called with the bytes that are done and all of
            them.
        overwrite: whether a file at `dst` is replaced.
        token: for the host of `src`, and so are `headers`.
    """
    with watching(progress, "packing") as report:
        common = _common(threads, memory, overwrite, report, token, headers)
        return _reports.packed(
            _native.pack(src, dst, effort, extended, base, family, statistics, sha256, common)
        )


def sketch(
    src: Any,
    dst: Any,
    *,
    base: Any = None,
    digests: bool = False,
    threads: int = 0,
    progress: Any = None,
    overwrite: bool = True,
    token: str | None = None,
    headers: dict[str, str] | None = None,
) -> _reports.SketchReport:
    """Writes a small signature of a checkpoint, by which `pack` with
    ``base="auto"`` compares it.

    Args:
        base: the base of a difference.
        digests: whether plain files on servers are fetched as a whole to digest
            their tensors. Without it only samples are fetched.

    See `pack` for the other arguments.
    """
    with watching(progress, "sketching") as report:
        common = _common(threads, None, overwrite, report, token, headers)
        return _reports.SketchReport(**_native.sketch(src, dst, base, digests, common))


def unpack(
    src: Any,
    dst: Any,
    *,
    threads: int = 0,
    memory: int | None = None,
    base: Any = None,
    progress: Any = None,
    overwrite: bool = True,
    token: str | None = None,
    headers: dict[str, str] | None = None,
) -> _reports.UnpackReport:
    """Restores what `pack` has packed, byte for byte. See `pack` for the
    arguments."""
    with watching(progress, "unpacking") as report:
        common = _common(threads, memory, overwrite, report, token, headers)
        return _reports.unpacked(_native.unpack(src, dst, base, common))


def verify(
    src: Any,
    *,
    original: Any = None,
    threads: int = 0,
    memory: int | None = None,
    base: Any = None,
    progress: Any = None,
    token: str | None = None,
    headers: dict[str, str] | None = None,
) -> _reports.VerifyReport:
    """Decodes all of a checkpoint without keeping it, and compares it with the
    digests in it, and with `original` if that is given. See `pack` for the
    other arguments.

    Raises:
        ZstnError: with the code ``"differs"`` if the original is another, or
            that of the damage.
    """
    with watching(progress, "verifying") as report:
        common = _common(threads, memory, True, report, token, headers)
        return _reports.verified(_native.verify(src, original, base, common))


def convert(
    src: Any,
    dst: Any,
    *,
    to: str | None = None,
    effort: str = "balanced",
    extended: bool = False,
    threads: int = 0,
    memory: int | None = None,
    base: Any = None,
    progress: Any = None,
    dense: bool = True,
    shard_bytes: int | None = None,
    overwrite: bool = True,
    token: str | None = None,
    headers: dict[str, str] | None = None,
) -> _reports.ConvertReport:
    """Converts a checkpoint of any kind that `zstn.open` reads.

    Args:
        to: ``"safetensors"``, ``"zstn"``, ``"ztensor"``, ``"gauss"`` (lossy)
            or ``"compressed-tensors"``; by default the name of `dst` says it.
        extended: whether a ZSTN file gets extension frames where they are
            smaller; refused for other kinds of output.
        dense: whether weights in the formats of compressed-tensors are read
            dense.
        shard_bytes: largest length of the tensors in a file, where `dst` is an
            index.

    See `pack` for the other arguments.
    """
    with watching(progress, "converting") as report:
        common = _common(threads, memory, overwrite, report, token, headers)
        return _reports.converted(
            _native.convert(src, dst, to, effort, extended, dense, shard_bytes, base, common)
        )


def _common(
    threads: int,
    memory: int | None,
    overwrite: bool,
    progress: Any,
    token: str | None,
    headers: dict[str, str] | None,
) -> dict[str, Any]:
    return {
        "threads": threads,
        "memory": memory,
        "overwrite": overwrite,
        "progress": progress,
        "http": http_options(token, headers),
    }
