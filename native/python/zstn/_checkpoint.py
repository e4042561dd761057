"""Work on whole checkpoints."""

from __future__ import annotations

import os
import warnings
from pathlib import PurePath
from typing import Any, Literal

from . import _native, _reports
from ._log import LOGGER
from ._options import check_effort, count, flag, size, text
from ._progress import watching
from ._sources import http_options
from ._types import Bases, Effort, Input, Output, Progress


def pack(
    src: Input,
    dst: Output,
    *,
    effort: Effort = "balanced",
    extended: bool = False,
    threads: int = 0,
    memory: int | str | None = None,
    base: Bases = None,
    family: str | os.PathLike[str] | None = None,
    statistics: bool = True,
    sha256: str | None = None,
    progress: Progress = None,
    overwrite: bool = True,
    token: str | None = None,
    headers: dict[str, str] | None = None,
) -> _reports.PackReport:
    """Packs a checkpoint of safetensors without losing a bit.

    After an exception, `KeyboardInterrupt` included, nothing of the caller is read and
    `dst` does not appear any more.

    A file becomes a ZSTN file, or with `base` its difference from that; a
    folder or an index of shards becomes a folder. `dst` appears when it is
    complete. The same input and options give the same bytes.

    Args:
        src: a path, an address, bytes or another input of `zstn.open`. Memory
            must not be changed meanwhile.
        dst: a path, an address, or a binary file object that a single file is
            written to while it is packed: what may still be revised, at most
            the largest packed tensor, waits in a temporary file. Its `write` returns
            how many bytes it has taken, like that of `io.RawIOBase`. If an
            exception is raised, what has been written is worth nothing.
        effort: ``"fast"``, ``"balanced"`` or ``"max"``.
        extended: whether extension frames are written where they are smaller.
            zstn 0.1 and later read a file with one; z4ai does not. A stream as
            `dst` then gets nothing before the first of them, or the end.
        threads: 1 to 1024, or 0 to share one per core with the process.
        memory: bytes to stay within, roughly, or a text such as ``"512M"``; by default
            1 GiB.
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
            them, the last time right before `dst` appears. An exception of it ends
            the work.
        overwrite: whether a file at `dst` is replaced, as functions that write files
            do by default; the commands `zstn` and `hf-zstn` ask for ``--force``. A
            folder is never replaced.
        token: for the host of `src`, and so are `headers`.
    """
    with watching(progress, "packing") as report:
        common = _common(threads, memory, overwrite, report, token, headers)
        packed = _reports.packed(
            _native.pack(
                src,
                dst,
                check_effort(effort),
                flag("extended", extended),
                base,
                family,
                flag("statistics", statistics),
                text("sha256", sha256),
                common,
            )
        )
    _note(dst, "a packed file", {".zstn"} if base is None else {".z4dm"})
    LOGGER.info(
        "packed %d bytes into %d: %d tensors", packed.original_bytes, packed.packed_bytes, packed.tensors
    )
    return packed


def sketch(
    src: Input,
    dst: Output,
    *,
    base: Bases = None,
    digests: bool = False,
    threads: int = 0,
    progress: Progress = None,
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
        return _reports.SketchReport(**_native.sketch(src, dst, base, flag("digests", digests), common))


def unpack(
    src: Input,
    dst: Output,
    *,
    threads: int = 0,
    memory: int | str | None = None,
    base: Bases = None,
    progress: Progress = None,
    overwrite: bool = True,
    token: str | None = None,
    headers: dict[str, str] | None = None,
) -> _reports.UnpackReport:
    """Restores what `pack` has packed, byte for byte. See `pack` for the
    arguments."""
    with watching(progress, "unpacking") as report:
        common = _common(threads, memory, overwrite, report, token, headers)
        restored = _reports.unpacked(_native.unpack(src, dst, base, common))
    _note(dst, "a restored file", {".safetensors"})
    LOGGER.info("restored %d bytes from %d", restored.original_bytes, restored.packed_bytes)
    return restored


def verify(
    src: Input,
    *,
    original: Input | None = None,
    threads: int = 0,
    memory: int | str | None = None,
    base: Bases = None,
    progress: Progress = None,
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
        verified = _reports.verified(_native.verify(src, original, base, common))
    LOGGER.info("verified %d files", len(verified.files))
    return verified


def convert(
    src: Input,
    dst: Output,
    *,
    to: Literal["safetensors", "zstn", "ztensor", "gauss", "compressed-tensors"] | None = None,
    effort: Effort = "balanced",
    extended: bool = False,
    threads: int = 0,
    memory: int | str | None = None,
    base: Bases = None,
    progress: Progress = None,
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
        converted = _reports.converted(
            _native.convert(
                src,
                dst,
                text("to", to),
                check_effort(effort),
                flag("extended", extended),
                flag("dense", dense),
                count("shard_bytes", shard_bytes, 1),
                base,
                common,
            )
        )
    LOGGER.info("converted %s to %s: %d tensors", converted.source_kind, converted.kind, converted.tensors)
    return converted


def _common(
    threads: int,
    memory: int | str | None,
    overwrite: bool,
    progress: Any,
    token: str | None,
    headers: dict[str, str] | None,
) -> dict[str, Any]:
    return {
        "threads": threads,
        "memory": size("memory", memory),
        "overwrite": flag("overwrite", overwrite),
        "progress": progress,
        "http": http_options(token, headers),
    }


#: Endings of files that hold something of their own.
_KNOWN = frozenset(
    ".safetensors .zstn .z4dm .zt .sketch .json .zip .gz .tar .tgz .bz2 .xz .zst .7z .pt .pth "
    ".bin .ckpt .npz .npy .gguf .onnx .h5 .hdf5 .msgpack".split()
)


def _note(dst: Any, what: str, endings: set[str]) -> None:
    """Warns of a name that says something else than the file holds."""
    if not isinstance(dst, str | os.PathLike) or os.path.isdir(dst):
        return
    ending = PurePath(os.fsdecode(dst)).suffix.lower()
    if ending in _KNOWN and ending not in endings:
        expected = " or ".join(sorted(endings))
        warnings.warn(
            f"{os.fsdecode(dst)} is {what}, which other programs expect to end in {expected}, "
            f"not in {ending}",
            stacklevel=3,
        )
