"""Packing, restoring, verifying, comparing and converting whole checkpoints."""

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
    """Packs a checkpoint losslessly: a safetensors file, or a file of any other format.

    A file becomes a ZSTN file, or a delta if `base` is given; a folder or an index of
    shards becomes a folder. `dst` appears only when it is complete. The same input and
    options always give the same bytes.

    After an exception, including `KeyboardInterrupt`, `dst` does not appear, and the
    call has stopped using the caller's objects.

    Args:
        src: a path, an address, bytes or another input of `zstn.open`. Memory must not
            be changed during the call.
        dst: a path, an address, or a binary file object. A file object receives a
            single file while it is packed; bytes that may still be revised, at most as
            many as the largest packed tensor has, are buffered in a temporary file. Its
            `write` returns the number of bytes accepted, as `io.RawIOBase.write` does.
            After an exception, the bytes written so far must not be used.
        effort: ``"fast"``, ``"balanced"`` or ``"max"``.
        extended: whether extension frames are written where they are smaller. zstn 0.1
            and later can read a file that contains one; z4ai cannot. If `dst` is a file
            object, it receives nothing before the first extension frame or the end.
        threads: number of threads, or 0 to share one per core with the whole process.
        memory: approximate limit in bytes, or a text such as ``"512M"``; by
            default 1 GiB, or 256 MiB for each thread if that is more.
        base: a plain or packed checkpoint to store the delta from; a list of a delta and
            its own bases; a list of the checkpoints that a model was merged from; or
            ``"auto"`` for the best one in `family`, if one is good enough.
        family: a folder of checkpoints, local or in an object store.
        statistics: whether a ZSTN file contains statistics of its tensors, which
            `Reader.statistics` returns.
        sha256: the SHA-256 of `src` in 64 hexadecimal digits, such as its Git LFS oid;
            `src` must be a single file. The digest is taken on trust instead of
            computed: `unpack` and `verify` compare it, and fail if it is wrong.
        progress: `True` for a tqdm bar, a class like ``tqdm.tqdm``, or a function that
            is called with the number of bytes done and the total, for the last time
            right before `dst` appears. An exception that it raises stops the work.
        overwrite: whether an existing file at `dst` is replaced. This is the default in
            functions that write files, while the commands `zstn` and `hf-zstn` require
            ``--force``. A folder is never replaced.
        token: token for the host of `src`.
        headers: headers for requests to the host of `src`.
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
    is_delta = any(file.storage == "delta" for file in packed.files)
    _note_packed(dst, ".z4dm" if is_delta else ".zstn")
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
    """Writes a small sketch of a checkpoint, which `pack` with ``base="auto"``
    compares with other checkpoints.

    Args:
        base: the base of `src`, if `src` is a delta.
        digests: whether plain files on servers are downloaded whole to compute digests
            of their tensors. By default, only samples are fetched.

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
    """Restores a checkpoint that `pack` has packed, byte for byte. See `pack` for the
    arguments.

    A file object as `dst` receives every tensor once its digest has been compared, and
    the last byte of the file once all digests have been. After an exception, the bytes
    written so far must not be used.
    """
    with watching(progress, "unpacking") as report:
        common = _common(threads, memory, overwrite, report, token, headers)
        restored = _reports.unpacked(_native.unpack(src, dst, base, common))
    _note_restored(dst)
    LOGGER.info("restored %d bytes from %d", restored.original_bytes, restored.packed_bytes)
    return restored


def verify(
    src: Input,
    *,
    original: Input | None = None,
    confirm: bool = False,
    fast: bool = False,
    threads: int = 0,
    memory: int | str | None = None,
    base: Bases = None,
    progress: Progress = None,
    token: str | None = None,
    headers: dict[str, str] | None = None,
) -> _reports.VerifyReport:
    """Decodes a whole checkpoint without storing it, and compares it with the digests
    in its files, and with `original` if that is given. See `pack` for the other
    arguments.

    Args:
        original: the checkpoint to compare with. If `src` is not packed, only the tensors
            are compared, not the metadata, so that `VerifyReport.identical` is False.
        confirm: whether a ``.zstn`` file records that its SHA-256, which `pack` was
            given, has been compared. The file is then replaced by a copy.
        fast: whether the digest of each file as a whole, usually its SHA-256, is left
            out. All tensors are still compared with their own digests.

    Raises:
        ZstnError: with the code ``"differs"`` if the checkpoint differs from the
            original, or with the code of the damage that was found.
    """
    with watching(progress, "verifying") as report:
        common = _common(threads, memory, True, report, token, headers)
        verified = _reports.verified(
            _native.verify(
                src, original, flag("confirm", confirm), flag("fast", fast), base, common
            )
        )
    LOGGER.info("verified %d files", len(verified.files))
    return verified


def diff(
    first: Input,
    second: Input,
    *,
    figures: bool = True,
    dense: bool = True,
    threads: int = 0,
    base: Bases = None,
    progress: Progress = None,
    token: str | None = None,
    headers: dict[str, str] | None = None,
) -> _reports.DiffReport:
    """Compares the tensors of two models of any formats by name.

    Tensors with a digest in both files are only read if the digests differ. Memory: twice
    the largest tensor, or 64 MiB. See `pack` for the other arguments.

    Args:
        figures: whether the changes are measured, which reads the changed tensors.
        dense: whether weights that are stored in several tensors are compared as they
            are computed from them, as in `zstn.open`.
        base: the base of a delta; by default, the other model. `token` and `headers` are
            sent to the server of `first`, or of `second` if `first` is not on a server.

    Raises:
        ZstnError: if a model cannot be read.
    """
    with watching(progress, "comparing") as report:
        common = _common(threads, None, True, report, token, headers)
        compared = _reports.compared(
            _native.diff(
                first, second, flag("figures", figures), flag("dense", dense), base, common
            )
        )
    LOGGER.info("%d tensors changed, %d are equal", len(compared.changed), compared.equal_tensors)
    return compared


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
    """Converts a checkpoint in any format that `zstn.open` reads.

    Args:
        to: ``"safetensors"``, ``"zstn"``, ``"ztensor"``, ``"gauss"`` (lossy) or
            ``"compressed-tensors"``; by default, the name of `dst` determines it.
        extended: whether extension frames are written where they are smaller; only for
            ZSTN output.
        dense: whether weights in a compressed-tensors format are decoded; otherwise
            their parts are separate tensors.
        shard_bytes: maximum length of the tensors in a file, if `dst` is an index; 5 GiB
            by default.

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
    progress: Progress,
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


#: File name extensions that imply a certain content.
_KNOWN = frozenset(
    ".safetensors .zstn .z4dm .zt .sketch .json .zip .gz .tar .tgz .bz2 .xz .zst .7z .pt .pth "
    ".bin .ckpt .npz .npy .gguf .onnx .h5 .hdf5 .msgpack .keras .nemo".split()
)


def _note_packed(dst: Any, expected: str) -> None:
    """Warns if the name of a packed file has the extension of other content."""
    ending = _ending(dst)
    if ending in _KNOWN and ending != expected:
        warnings.warn(
            f"{os.fsdecode(dst)} is a packed file, which other programs expect to end in "
            f"{expected}, not in {ending}",
            stacklevel=3,
        )


def _note_restored(dst: Any) -> None:
    """Warns if the name of a restored file has the extension of a packed file. Packed
    files do not record the extension of their original, so no other name is wrong."""
    ending = _ending(dst)
    if ending in (".zstn", ".z4dm"):
        warnings.warn(
            f"{os.fsdecode(dst)} is a restored file, but other programs expect a packed file, "
            f"because its name ends in {ending}",
            stacklevel=3,
        )


def _ending(dst: Any) -> str:
    """Returns the extension of an output file in lower case; an empty string for folders
    and file objects."""
    if not isinstance(dst, str | os.PathLike) or os.path.isdir(dst):
        return ""
    return PurePath(os.fsdecode(dst)).suffix.lower()
