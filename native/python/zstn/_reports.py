"""Reports on finished work, and the statistics of tensors that were stored when a file was
packed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class FolderReport:
    """The files of an output folder other than packed or restored ones."""

    index: str | None
    """File name of its index, if it has one."""
    copied: list[str]
    """Files that were copied unchanged."""
    copied_bytes: int
    """Total length of these files in bytes."""
    not_packed: list[tuple[str, str]]
    """Copied files that are named like a checkpoint or an index but could not be
    packed, with the reasons."""
    missing_tensors: list[str]
    """Tensors that an index lists but that are missing from the file it names."""
    left_out: list[str]
    """Entries of the input folder that were not copied."""


@dataclass(frozen=True, slots=True)
class Uploaded:
    """The upload of a file to an object store."""

    parts: int
    """Number of parts that were sent; 0 if the object was sent in one request."""
    parts_reused: int
    """Number of parts that an earlier, interrupted attempt had sent."""


class _File(Protocol):
    @property
    def original_bytes(self) -> int: ...
    @property
    def packed_bytes(self) -> int: ...


class _Sums:
    """Totals over the files of a report."""

    __slots__ = ()

    @property
    def _files(self) -> Sequence[_File]:
        raise NotImplementedError

    @property
    def original_bytes(self) -> int:
        return sum(file.original_bytes for file in self._files)

    @property
    def packed_bytes(self) -> int:
        return sum(file.packed_bytes for file in self._files)


@dataclass(frozen=True, slots=True)
class PackedFile:
    """The result of packing one file."""

    input: str
    output: str | None
    original_bytes: int
    packed_bytes: int
    tensors: int
    storage: str
    """``"indexed"``, ``"delta"``, or ``"single_frame"`` for a file that breaks the
    rules of safetensors, whose tensors can only be read all at once."""
    original_kind: str | None
    """Format of a file that is not safetensors: the name of a format, or ``"bytes"``."""
    refusal: str | None
    """Reason why such a file was packed as bytes."""
    aliased: int | None
    """Number of tensors stored as references to others, if indexed."""
    copied: int | None
    """Number of tensors that are equal in the base, in a delta."""
    differing: int | None
    """Number of tensors stored as a delta from the base, in a delta."""
    whole: int | None
    """Number of tensors stored without the base, in a delta."""
    upload: Uploaded | None
    """The upload, if the output is in an object store."""


@dataclass(frozen=True, slots=True)
class FamilyReport:
    """The choice of a base from a family."""

    bases: list[str]
    """The chosen base, followed by its own base if it is a delta, and so on; or the
    checkpoints that the model was merged from, each followed by its own bases. Empty if
    no base is good enough."""
    candidates: int
    """Number of checkpoints that were compared and could be the base."""
    expected_bytes: int
    """Expected packed length in bytes."""
    expected_plain_bytes: int
    """Expected packed length in bytes without a base and without extension frames."""
    left_out: list[tuple[str, str]]
    """Names of checkpoints that cannot be the base, with the reasons."""


@dataclass(frozen=True, slots=True)
class SketchReport:
    """The result of writing a sketch."""

    original_bytes: int
    sketch_bytes: int
    tensors: int
    digested_tensors: int


@dataclass(frozen=True, slots=True)
class PackReport(_Sums):
    """The result of packing, with an entry for the file or for every shard."""

    files: list[PackedFile]
    folder: FolderReport | None
    family: FamilyReport | None = None
    """The choice of the base, with ``base="auto"``."""

    @property
    def _files(self) -> Sequence[_File]:
        return self.files

    @property
    def tensors(self) -> int:
        return sum(file.tensors for file in self.files)

    @property
    def ratio(self) -> float:
        """Original bytes divided by packed bytes."""
        return self.original_bytes / max(self.packed_bytes, 1)


@dataclass(frozen=True, slots=True)
class UnpackedFile:
    """The result of restoring one file."""

    input: str
    output: str | None
    packed_bytes: int
    original_bytes: int
    upload: Uploaded | None
    """The upload, if the output is in an object store."""


@dataclass(frozen=True, slots=True)
class UnpackReport(_Sums):
    """The result of unpacking, with an entry for the file or for every shard."""

    files: list[UnpackedFile]
    folder: FolderReport | None

    @property
    def _files(self) -> Sequence[_File]:
        return self.files


@dataclass(frozen=True, slots=True)
class VerifiedFile:
    """A file that was verified, or a model in one or more files of another format."""

    name: str
    kind: str
    packed_bytes: int
    original_bytes: int
    frames: int
    """Number of frames, records or tensors that were decoded."""
    has_digests: bool
    """Whether every byte was compared with digests in the file."""
    has_file_digest: bool
    """Whether the restored file as a whole was compared with a digest in the packed file.
    """
    max_error: float | None
    """Largest deviation from the original of an element that is stored lossily."""
    is_confirmed: bool
    """Whether the file has recorded that its claimed SHA-256 has been compared."""


@dataclass(frozen=True, slots=True)
class VerifyReport(_Sums):
    """The result of verifying."""

    files: list[VerifiedFile]
    compared: bool
    """Whether all tensors were compared with the tensors of the original."""
    identical: bool
    """Whether every byte of every file was compared with the original and is the same.
    """
    indexed_tensors: int
    """Number of tensors listed in the index of a checkpoint in several files and found
    in their files."""
    missing_tensors: list[str]
    """Tensors that are listed in the index but missing from their files."""
    unchecked_files: list[str]
    """Entries of the folder that were not checked, because copied files have no
    checksums."""

    @property
    def has_digests(self) -> bool:
        return all(file.has_digests for file in self.files)

    @property
    def _files(self) -> Sequence[_File]:
        return self.files


@dataclass(frozen=True, slots=True)
class ConvertReport:
    """The result of a conversion."""

    source_kind: str
    kind: str
    tensors: int
    tensor_bytes: int
    written_bytes: int
    files: list[str]
    dropped: list[str]
    """Metadata keys that the output cannot store."""
    is_decoded: bool
    """Whether the input stores codes instead of values (Gauss, compressed-tensors). The
    output has the decoded values."""
    is_rotated: bool
    """Whether the weights had been rotated before they were quantised. The output has
    the rotated weights."""
    sparse: int | None
    """Number of tensors stored sparsely, in compressed-tensors."""


@dataclass(frozen=True, slots=True)
class TensorDiff:
    """A tensor that is not equal in two models."""

    name: str
    dtypes: tuple[str, str]
    """Dtype in the first and in the second model."""
    shapes: tuple[tuple[int, ...], tuple[int, ...]]
    """Shape in the first and in the second model."""
    changed_elements: int | None
    """Number of elements that differ; None if it was not measured, or if the shapes
    differ."""
    lost_finite: int | None
    """Number of elements that are NaN or infinite in the second model only."""
    gained_finite: int | None
    """Number of elements that are NaN or infinite in the first model only."""
    relative_change: float | None
    """Norm of the change divided by the norm of the tensor in the first model; None if
    it is unknown, or if the tensor has only zeros there."""
    max_change: float | None
    """Largest distance between the values of an element. Elements that are NaN or infinite
    in either model are left out."""


@dataclass(frozen=True, slots=True)
class DiffReport:
    """The differences between two models."""

    changed: list[TensorDiff]
    """Tensors of both models that are not equal, most changed first; those in which
    values became or were NaN or infinite come before all others."""
    elements: int
    """Number of elements of the tensors that have the same shape in both models."""
    changed_elements: int | None
    """Number of these elements that differ; None if it is unknown."""
    equal_tensors: int
    """Number of tensors that are equal in both models."""
    equal_unread: int
    """Number of these tensors that were not read, because the files state that they are
    equal: by digests, or because one of them is a delta of the other."""
    only_in_first: list[str]
    only_in_second: list[str]
    unreadable: list[tuple[str, str]]
    """Tensors that one of the models cannot read, with the reason."""
    changed_metadata: list[str]
    """Keys of the safetensors metadata that differ."""
    is_equal: bool
    """Whether both models have the same tensors and safetensors metadata."""


def compared(given: dict[str, Any]) -> DiffReport:
    for item in given["changed"]:
        item["dtypes"] = tuple(item["dtypes"])
        item["shapes"] = tuple(tuple(shape) for shape in item["shapes"])
    given["changed"] = [TensorDiff(**item) for item in given["changed"]]
    return DiffReport(**given)


def _with_files(report: type, file: type, given: dict[str, Any]) -> Any:
    for item in given["files"]:
        if item.get("upload") is not None:
            item["upload"] = Uploaded(**item["upload"])
    given["files"] = [file(**item) for item in given["files"]]
    if given.get("folder") is not None:
        given["folder"] = FolderReport(**given["folder"])
    return report(**given)


def packed(given: dict[str, Any]) -> PackReport:
    if given.get("family") is not None:
        given["family"] = FamilyReport(**given["family"])
    return _with_files(PackReport, PackedFile, given)


def unpacked(given: dict[str, Any]) -> UnpackReport:
    return _with_files(UnpackReport, UnpackedFile, given)


def verified(given: dict[str, Any]) -> VerifyReport:
    return _with_files(VerifyReport, VerifiedFile, given)


def converted(given: dict[str, Any]) -> ConvertReport:
    return ConvertReport(**given)


@dataclass(frozen=True, slots=True)
class Figures:
    """Statistics of the elements of a tensor or of a band of its rows. Extremes, mean
    and root mean square cover the finite elements; they are NaN if there are none."""

    count: int
    min: float
    max: float
    mean: float
    rms: float
    zeros: int
    nans: int
    infinities: int


@dataclass(frozen=True, slots=True)
class Statistics:
    """The statistics of a tensor and of its bands of rows."""

    summary: Figures
    """Statistics of all elements."""
    rows_per_band: int
    """Number of rows per band; the last band may have fewer. A row is a run along the
    last dimension; a vector is a single row."""
    bands: list[Figures]
    """Statistics of each band, starting with the first rows."""
