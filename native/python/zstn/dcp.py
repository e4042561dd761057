"""Packed checkpoints of ``torch.distributed.checkpoint`` (DCP).

>>> import torch.distributed.checkpoint as dcp
>>> from zstn.dcp import ZstnStorageReader, ZstnStorageWriter
>>> dcp.save(state, storage_writer=ZstnStorageWriter("checkpoint"))
>>> dcp.load(state, storage_reader=ZstnStorageReader("checkpoint"))

Each rank writes one ZSTN file, ``__0_0.zstn`` for rank 0, which `zstn.open` reads as any
other: a whole tensor has its own name there, and a shard has its offsets appended, as in
``layer.weight@128,0``. Loading with another number of ranks reads only the blocks that
contain the elements needed.

With ``ZstnStorageWriter("step-200", base="step-100")``, each file is a delta from the file
of the same rank in an earlier checkpoint, and is called ``__0_0.z4dm``, for example.
"""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _native
from ._errors import ZstnError
from ._options import check_effort, count
from ._reader import Reader
from ._reader import open as open_model
from ._types import Effort

try:
    import torch
    from torch.distributed.checkpoint import FileSystemReader, FileSystemWriter
    from torch.distributed.checkpoint.planner import LoadItemType, WriteItemType
    from torch.distributed.checkpoint.storage import WriteResult
    from torch.futures import Future
except ImportError as error:
    raise ImportError(
        f"zstn.dcp needs PyTorch with torch.distributed (`pip install torch`): {error}"
    ) from error

from .torch import _NAMES, _bytes

if TYPE_CHECKING:
    from torch.distributed.checkpoint.metadata import Metadata, MetadataIndex
    from torch.distributed.checkpoint.planner import (
        LoadPlan,
        LoadPlanner,
        ReadItem,
        SavePlan,
        SavePlanner,
        WriteItem,
    )

    from ._save import Stored

__all__ = ["StoredItem", "ZstnStorageReader", "ZstnStorageWriter"]

#: The library's limit of bases in a chain.
_MAX_BASES = 4

#: The entry in the metadata of a delta that has the path of its base, relative to the
#: folder of the delta, with ``/`` between its parts.
_BASE = "zstn.base"


@dataclass(frozen=True)
class StoredItem:
    """The place of an item in a checkpoint; part of its ``.metadata``."""

    relative_path: str
    """Path of the packed file, relative to the checkpoint's folder."""
    name: str
    """Name of the tensor in this file."""
    raw_dtype: str | None = None
    """The dtype in PyTorch of a tensor that is stored as bytes, because ZSTN files have
    no such dtype; `None` for any other item."""
    shape: tuple[int, ...] = ()
    """Shape of a tensor that is stored as bytes."""


class ZstnStorageWriter(FileSystemWriter):  # type: ignore[misc]
    """Writes a packed checkpoint, for `storage_writer` of ``dcp.save`` and
    ``dcp.async_save``.

    Tensors on other devices are copied to the memory of the host first, all those of a
    rank at once. Every file is synced to disk before it gets its name.

    Args:
        path: the folder of the checkpoint, on a file system that all ranks share.
        effort: ``"fast"``, ``"balanced"`` or ``"max"``, as in `zstn.pack`.
        threads: number of threads, or 0 to share one per core with the whole process.
        overwrite: whether a checkpoint in the folder is replaced. From the moment that
            its first file is replaced until the new checkpoint is complete, the folder
            has no ``.metadata``, so that no mixture of the two can be loaded.
        base: the folder of an earlier, complete checkpoint of `ZstnStorageWriter`. The
            file of every rank is stored as a delta from the file of the same rank there,
            if there is one. The checkpoint can be loaded only while `base` and the bases
            of its files are unchanged and at the same path relative to `path`.
        max_chain: the largest number of bases that a file depends on, 0 to 4. After this
            many deltas, it is packed without a base.

    Raises:
        RuntimeError: in ``dcp.save``, if there is a checkpoint and `overwrite` is false.
        FileNotFoundError: in ``dcp.save``, if `base` is not a complete checkpoint.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        effort: Effort = "balanced",
        threads: int = 0,
        overwrite: bool = False,
        base: str | os.PathLike[str] | None = None,
        max_chain: int = _MAX_BASES,
    ) -> None:
        super().__init__(path, overwrite=overwrite)
        self._effort = check_effort(effort)
        self._threads = threads
        self._base = None if base is None else Path(base).absolute()
        self._max_chain = count("max_chain", max_chain, 0, _MAX_BASES) or 0
        if self._base == Path(path).absolute():
            raise ValueError(f"{path} cannot be its own base: write to another folder")

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        rank = None if self.use_collectives else self.rank
        Path(self._get_metadata_path(rank)).unlink(missing_ok=True)
        return super().prepare_global_plan(plans)

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        future = Future()
        stem = f"{plan.storage_data.prefix}0"
        chain = self._chain(stem)
        file_name = _names(stem)[bool(chain)]
        stored: dict[str, Stored] = {}
        results = []
        for item in plan.items:
            place, tensor = self._stored(item, planner.resolve_data(item), stored, file_name)
            stored[place.name] = tensor
            results.append(WriteResult(item.index, len(tensor[3]), place))
        if stored:
            folder, metadata = Path(self.path).absolute(), {"format": "pt"}
            if chain:
                metadata[_BASE] = Path(os.path.relpath(chain[0], folder)).as_posix()
            _native.save_file(
                list(stored.values()),
                folder / file_name,
                metadata,
                self._effort,
                self._threads,
                [str(path) for path in chain],
            )
        future.set_result(results)
        return future

    def _chain(self, stem: str) -> list[Path]:
        """Returns the bases of the file that this rank writes, nearest first; none if it
        is packed without a base."""
        if self._base is None:
            return []
        if not (self._base / ".metadata").is_file():
            raise FileNotFoundError(
                f"{self._base} is not a complete checkpoint, so it cannot be a base"
            )
        found = [path for name in _names(stem) if (path := self._base / name).is_file()]
        chain = [path for base in found[:1] for path in (base, *_bases(base))]
        return chain if len(chain) <= self._max_chain else []

    @staticmethod
    def _stored(
        item: WriteItem, data: Any, taken: dict[str, Stored], file_name: str
    ) -> tuple[StoredItem, Stored]:
        """Returns the place of an item, and the tensor to store there."""
        name = item.index.fqn
        if item.type == WriteItemType.BYTE_IO:
            content = data.getvalue()
            name = _unused(name, taken)
            return StoredItem(file_name, name), (name, "U8", (len(content),), content)
        assert item.tensor_data is not None
        chunk = item.tensor_data.chunk
        if tuple(chunk.sizes) != tuple(item.tensor_data.size):
            name = f"{name}@{','.join(map(str, chunk.offsets))}"
        name = _unused(name, taken)
        if data.layout != torch.strided or data.is_quantized:
            raise TypeError(
                f"`{item.index.fqn}` is sparse or quantised, which zstn.dcp cannot store: "
                "make it dense"
            )
        tensor = data.detach().cpu().resolve_conj().resolve_neg().contiguous()
        content, shape = _bytes(tensor), tuple(tensor.shape)
        dtype = _NAMES.get(tensor.dtype)
        if dtype is None or dtype == "F4":
            raw = str(tensor.dtype).removeprefix("torch.")
            place = StoredItem(file_name, name, raw, shape)
            return place, (name, "U8", (len(content),), content)
        return StoredItem(file_name, name), (name, dtype, shape, content)


class ZstnStorageReader(FileSystemReader):  # type: ignore[misc]
    """Reads a checkpoint of `ZstnStorageWriter`, for `storage_reader` of ``dcp.load``.

    As with DCP's own reader, the objects of a checkpoint other than tensors are pickles,
    which can execute code. Only load checkpoints that you trust.

    Args:
        path: the folder of the checkpoint.
        threads: number of threads, or 0 to share one per core with the whole process.

    Raises:
        FileNotFoundError: in ``dcp.load``, if the checkpoint or one of its files is
            missing.
        zstn.ZstnError: in ``dcp.load``, if a file is damaged. ``dcp.load`` wraps errors
            in a ``CheckpointException``.
    """

    def __init__(self, path: str | os.PathLike[str], *, threads: int = 0) -> None:
        super().__init__(path)
        self._threads = threads

    def set_up_storage_reader(
        self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any
    ) -> None:
        super().set_up_storage_reader(metadata, is_coordinator, *args, **kwargs)
        if not all(isinstance(place, StoredItem) for place in self.storage_data.values()):
            raise ValueError(
                f"{self.path} was not written by ZstnStorageWriter: load it with the reader "
                "that belongs to its writer, such as FileSystemReader"
            )

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        items: dict[str, list[tuple[ReadItem, StoredItem]]] = {}
        for item in plan.items:
            place = self._place(item.storage_index)
            items.setdefault(place.relative_path, []).append((item, place))
        for relative_path, requests in items.items():
            path = Path(self.path).absolute() / relative_path
            with open_model(path, base=_bases(path) or None, threads=self._threads) as model:
                for item, place in requests:
                    _read(model, item, place, planner)
        future = Future()
        future.set_result(None)
        return future

    def _place(self, index: MetadataIndex) -> StoredItem:
        return self.storage_data[index]


def _names(stem: str) -> tuple[str, str]:
    """Returns the names of a rank's file without a base, and with one."""
    return f"{stem}.zstn", f"{stem}.z4dm"


def _bases(path: Path) -> list[Path]:
    """Returns the files that a file of a checkpoint is a delta from, nearest first."""
    found: list[Path] = []
    while path.suffix == ".z4dm":
        with open_model(path) as model:
            base = model.metadata.get(_BASE)
        if base is None or len(found) == _MAX_BASES:
            raise ZstnError(f"{path} does not name the base that it is a delta from", "malformed")
        # Both writers and readers treat `..` as the folder in the path, also after a link.
        path = Path(os.path.normpath(path.parent / base))
        found.append(path)
    return found


def _unused(name: str, taken: dict[str, Stored]) -> str:
    while name in taken:
        name += "'"
    return name


def _read(model: Reader, item: ReadItem, place: StoredItem, planner: LoadPlanner) -> None:
    if item.type == LoadItemType.BYTE_IO:
        planner.load_bytes(item, io.BytesIO(memoryview(model.read(place.name))))
        return
    region = tuple(
        slice(start, start + length)
        for start, length in zip(item.storage_offsets, item.lengths, strict=True)
    )
    if place.raw_dtype is not None:
        tensor = _raw(model.tensor(place.name, "torch"), place.raw_dtype, place.shape)[region]
    elif _is_whole(region, model[place.name].shape):
        tensor = model.tensor(place.name, "torch")
    else:
        tensor = model.slice(place.name, "torch")[region]
    target = planner.resolve_tensor(item).detach()
    if target.shape != tensor.shape:
        raise ValueError(
            f"`{item.dest_index.fqn}` has the shape {tuple(target.shape)}, but the checkpoint "
            f"has {tuple(tensor.shape)} for this part"
        )
    target.copy_(tensor)
    planner.commit_tensor(item, target)


def _is_whole(region: tuple[slice, ...], shape: Sequence[int]) -> bool:
    return all(
        part.start == 0 and part.stop == length
        for part, length in zip(region, shape, strict=True)
    )


def _raw(content: Any, dtype: str, shape: tuple[int, ...]) -> Any:
    """Returns the tensor whose bytes are in a tensor of ``uint8``."""
    found = getattr(torch, dtype, None)
    if not isinstance(found, torch.dtype):
        raise TypeError(f"this version of torch has no dtype {dtype}")
    if not content.numel():
        return torch.empty(shape, dtype=found)
    return content.view(found).reshape(shape)
