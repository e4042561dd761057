"""The native module, written in Rust."""

import os
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, final

__all__ = [
    "PLAN_FORMAT",
    "VERSION",
    "AsyncReader",
    "Buffer",
    "Cancellation",
    "Reader",
    "Results",
    "Running",
    "SafetensorsView",
    "TensorInfo",
    "check_restores",
    "choose_bases",
    "compress",
    "compress_as",
    "compress_auto",
    "compress_delta",
    "convert",
    "copy_sha256",
    "decompress",
    "decompress_delta",
    "describe_frame",
    "diff",
    "inspect_frame",
    "is_model_name",
    "is_of_another_format",
    "is_other_model",
    "list_objects",
    "load_plan",
    "model_delta_pack",
    "model_delta_unpack",
    "open_async",
    "pack",
    "pack_bytes",
    "packed_name",
    "plan_key",
    "plan_share",
    "read_plan",
    "release_gpu_buffers",
    "remove_unfinished",
    "restored_name",
    "run_command_line",
    "sample_sketch",
    "save",
    "save_file",
    "sketch",
    "stream_sha256",
    "unpack",
    "unpack_bytes",
    "verify",
    "work_row",
]

VERSION: Final[str]
PLAN_FORMAT: Final[str]

@final
class Buffer:
    """The bytes of a tensor, writable and aligned to 64 bytes. A buffer supports the
    buffer protocol: ``memoryview(buffer)``, ``numpy.frombuffer(buffer, dtype)``."""

    def __new__(cls, length: int) -> Buffer: ...
    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

@final
class Cancellation:
    """A context manager. ``cancel()`` ends the calls of ``zstn`` on all threads that are
    inside its ``with`` block."""

    def __new__(cls) -> Cancellation: ...
    def cancel(self) -> None: ...
    def __enter__(self) -> None: ...
    def __exit__(self, *_exception: object) -> None: ...

@final
class TensorInfo:
    """The index entry of a tensor."""

    def __new__(
        cls,
        name: str,
        dtype: str,
        shape: Sequence[int],
        nbytes: int,
        stored_nbytes: int,
        original_nbytes: int | None = None,
        digest: str | None = None,
    ) -> TensorInfo: ...
    def __getnewargs__(self) -> tuple[str, str, list[int], int, int, int, str | None]: ...
    def __eq__(self, value: object, /) -> bool: ...
    def __ne__(self, value: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def dtype(self) -> str:
        """The element type in the spelling of safetensors, such as ``"BF16"``."""
    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of the dimensions, outermost first."""
    @property
    def nbytes(self) -> int:
        """The length of the decoded tensor in bytes."""
    @property
    def stored_nbytes(self) -> int:
        """The number of bytes that the tensor takes in its file, including bytes shared
        with equal tensors. A tensor that is only a part of an entry of a packed file
        takes its share of the entry's stored bytes."""
    @property
    def original_nbytes(self) -> int:
        """The length of the tensor in bytes in the file that it was packed from, or in its
        own file. It differs from ``nbytes`` for quantised values."""
    @property
    def digest(self) -> str | None:
        """The first 16 bytes of the BLAKE3 of the decoded tensor, in hexadecimal, as the
        file records them. Tensors of equal dtype, shape and digest are equal, as far as
        the files are right. ``None`` for files without digests."""

_Figures = tuple[int, float, float, float, float, int, int, int]

@final
class Reader:
    def __new__(
        cls,
        input: Any,
        base: Any,
        http: dict[str, Any],
        dense: bool,
        threads: int,
        full: bool = True,
    ) -> Reader: ...
    @property
    def is_closed(self) -> bool: ...
    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def original_extension(self) -> str | None: ...
    @property
    def original_sha256(self) -> str | None: ...
    def close(self) -> None: ...
    def keys(self) -> list[str]: ...
    def offset_keys(self) -> list[str]: ...
    def metadata(self) -> dict[str, str]: ...
    def len(self) -> int: ...
    def find(self, name: str) -> TensorInfo | None: ...
    def read(self, name: str) -> Buffer: ...
    def read_many(self, names: Sequence[str]) -> list[Buffer]: ...
    def read_into_device(
        self, device: int, stream: int, places: Sequence[tuple[str, int]]
    ) -> tuple[int, str | None]: ...
    def is_remote(self) -> bool: ...
    def summaries(self) -> list[tuple[str, _Figures]]: ...
    def statistics(self, name: str) -> tuple[_Figures, int, list[_Figures]] | None: ...
    def read_slice(self, name: str, picks: Sequence[tuple[int, int, int] | bytes]) -> Buffer: ...

@final
class Running:
    """A task that has been started. When it ends, it calls its argument ``done`` with a
    result and `None`, with `None` and an exception, or with `None` twice after it was
    cancelled, from another thread."""

    def cancel(self) -> None: ...

_Done = Callable[[Any, BaseException | None], None]

@final
class AsyncReader:
    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> str: ...
    def keys(self) -> list[str]: ...
    def metadata(self) -> dict[str, str]: ...
    def find(self, name: str) -> TensorInfo: ...
    def read(self, name: str, done: _Done) -> Running: ...
    def read_slice(
        self, name: str, picks: Sequence[tuple[int, int, int] | bytes], done: _Done
    ) -> Running: ...

def open_async(
    input: Any,
    base: Any,
    http: dict[str, Any],
    dense: bool,
    threads: int,
    full: bool,
    done: _Done,
) -> Running: ...

@final
class SafetensorsView:
    """A model as one safetensors file whose bytes are decoded on demand."""

    def __new__(cls, reader: Reader, cache_bytes: int) -> SafetensorsView: ...
    @property
    def size(self) -> int: ...
    @property
    def is_original(self) -> bool: ...
    def read(self, start: int, end: int) -> Buffer: ...
    def read_tensor(self, name: str, start: int, end: int) -> Buffer: ...

@final
class Results:
    """The entries of finished work, as JSON texts."""

    def __new__(cls, root: str, existing: bool = False) -> Results: ...
    def at(self, folder: str, name: str) -> str: ...
    def done(self, key: str) -> str | None: ...
    def packed(self, row: str) -> str | None: ...
    def failed(self, key: str) -> str | None: ...
    def put_done(self, entry: str) -> bool: ...
    def put_failed(self, entry: str) -> None: ...
    def files(self, folder: str) -> list[tuple[str, int, float | None]]: ...
    def create_file(self, folder: str, name: str, bytes: bytes) -> bool: ...
    def remove(self, folder: str, name: str) -> None: ...

def load_plan(path: str | os.PathLike[str]) -> list[str]: ...
def plan_key(sha256: str, effort: str, extended: bool, bases: str) -> str: ...
def plan_share(rows: Sequence[tuple[str, Sequence[str]]], index: int, count: int) -> list[int]: ...
def read_plan(path: str | os.PathLike[str], effort: str, extended: bool) -> list[str]: ...
def stream_sha256(location: str) -> tuple[int, str]: ...
def check_restores(
    stored: str,
    stored_sha256: str | None,
    bases: Sequence[str],
    original_sha256: str,
    common: dict[str, Any],
) -> None: ...
def copy_sha256(location: str, path: str | os.PathLike[str]) -> tuple[int, str]: ...
def is_model_name(name: str) -> bool: ...
def is_of_another_format(path: str | os.PathLike[str]) -> bool: ...
def is_other_model(path: str | os.PathLike[str]) -> bool: ...
def packed_name(name: str) -> str | None: ...
def restored_name(name: str) -> str | None: ...
def list_objects(url: str) -> list[tuple[str, int, str | None]]: ...
def sample_sketch(location: str) -> bytes: ...
def choose_bases(
    results: Results,
    folder: str,
    names: Sequence[str],
    planned: Sequence[int | None],
    extended: bool,
) -> list[list[int]]: ...
def work_row(
    row: str,
    origin: str,
    results: Results,
    scratch: str | os.PathLike[str],
    bases: Sequence[str | os.PathLike[str]] | None,
    effort: str,
    extended: bool,
    memory: int | None,
    threads: int,
    retry_refused: bool,
) -> tuple[Literal["packed", "known", "refused", "retry"], str, int, int]: ...
def release_gpu_buffers() -> None: ...
def remove_unfinished() -> None: ...
def run_command_line(
    script: str | os.PathLike[str] | None, arguments: Sequence[str]
) -> int: ...
def pack(
    src: Any,
    dst: Any,
    effort: str,
    extended: bool,
    base: Any,
    family: Any,
    statistics: bool,
    sha256: str | None,
    common: dict[str, Any],
) -> dict[str, Any]: ...
def sketch(src: Any, dst: Any, base: Any, digests: bool, common: dict[str, Any]) -> dict[str, Any]: ...
def unpack(src: Any, dst: Any, base: Any, common: dict[str, Any]) -> dict[str, Any]: ...
def verify(
    src: Any, original: Any, confirm: bool, fast: bool, base: Any, common: dict[str, Any]
) -> dict[str, Any]: ...
def diff(
    first: Any, second: Any, figures: bool, dense: bool, base: Any, common: dict[str, Any]
) -> dict[str, Any]: ...
def convert(
    src: Any,
    dst: Any,
    target: str | None,
    effort: str,
    extended: bool,
    dense: bool,
    shard_bytes: int | None,
    base: Any,
    common: dict[str, Any],
) -> dict[str, Any]: ...
def save(
    tensors: Sequence[tuple[str, str, Sequence[int], Any]],
    metadata: dict[str, str] | None,
    effort: str | None,
    threads: int,
) -> bytes: ...
def save_file(
    tensors: Sequence[tuple[str, str, Sequence[int], Any]],
    filename: Any,
    metadata: dict[str, str] | None,
    effort: str | None,
    threads: int,
    bases: Sequence[str] = ...,
) -> None: ...
def compress(
    data: Any, dtype: str | None, effort: str, families: str, threads: int
) -> bytes: ...
def compress_as(
    family: str, data: Any, width: int, chunk_bytes: int, threads: int
) -> bytes | None: ...
def compress_auto(
    data: Any, width: int, format: str | None, effort: str, threads: int
) -> bytes: ...
def decompress(frame: Any, threads: int) -> bytes: ...
def compress_delta(
    current: Any, reference: Any, dtype: str | None, effort: str, threads: int
) -> bytes: ...
def decompress_delta(delta: Any, reference: Any, threads: int) -> bytes: ...
def model_delta_pack(target: Any, base: Any, effort: str, threads: int) -> bytes: ...
def model_delta_unpack(delta: Any, base: Any, threads: int) -> bytes: ...
def inspect_frame(frame: Any) -> tuple[str, int, tuple[str, list[int]] | None]: ...
def describe_frame(frame: Any, dtype: str, shape: Sequence[int]) -> bytes: ...
def pack_bytes(data: Any, effort: str, threads: int) -> bytes: ...
def unpack_bytes(data: Any, threads: int) -> bytes: ...
