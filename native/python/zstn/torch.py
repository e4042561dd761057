"""Saves and loads torch tensors, with the same functions as ``safetensors.torch``."""

from __future__ import annotations

import bisect
import os
from collections.abc import Container, Iterator, Mapping
from typing import Any

import torch

from . import _native, _save
from ._frameworks import _TORCH, to_torch
from ._types import Backend, Effort, Format

_NAMES = {
    getattr(torch, name): dtype for dtype, name in _TORCH.items() if hasattr(torch, name)
}


def save(
    tensors: Mapping[str, torch.Tensor],
    metadata: Mapping[str, str] | None = None,
    *,
    format: Format | None = None,
    effort: Effort = "balanced",
) -> bytes:
    """Returns the bytes of a safetensors file, or of a packed file with
    ``format="zstn"``."""
    return _save.save(stored(tensors), metadata, format, effort)


def save_file(
    tensors: Mapping[str, torch.Tensor],
    filename: str | os.PathLike[str],
    metadata: Mapping[str, str] | None = None,
    *,
    format: Format | None = None,
    effort: Effort = "balanced",
) -> None:
    """Writes a safetensors file, or a packed file if `filename` ends in ``.zstn`` or
    `format` is ``"zstn"``."""
    _save.save_file(stored(tensors), filename, metadata, format, effort)


def save_model(
    model: torch.nn.Module,
    filename: str | os.PathLike[str],
    metadata: Mapping[str, str] | None = None,
    force_contiguous: bool = True,
    *,
    format: Format | None = None,
    effort: Effort = "balanced",
) -> None:
    """Writes the state of a model to a plain or packed file, chosen as in `save_file`.

    If tensors share memory, only one of them is stored; the metadata map the names of
    the others to its name. `load_model` reads the file.

    Args:
        force_contiguous: whether tensors that are not contiguous are stored as
            contiguous copies; otherwise they are refused.
    """
    state = model.state_dict()
    notes = dict(metadata or {})
    for kept, others in _duplicates(state).items():
        for other in others:
            notes.setdefault(other, kept)
            del state[other]
    if force_contiguous:
        state = {name: tensor.contiguous() for name, tensor in state.items()}
    given = None if metadata is None and not notes else notes
    save_file(state, filename, given, format=format, effort=effort)


def load_model(
    model: torch.nn.Module,
    filename: str | os.PathLike[str],
    strict: bool = True,
    device: str | int = "cpu",
) -> tuple[list[str], list[str]]:
    """Loads a plain or packed file written by `save_model` or safetensors into a model.

    Returns:
        The names that are missing from the file, and the names that the model does not
        have. A name is not missing if the file contains another name for its memory.

    Raises:
        RuntimeError: if there are such names and `strict` is true.
    """
    state = load_file(filename, device)
    duplicates = _duplicates(model.state_dict(), preferred=state)
    result = model.load_state_dict(state, strict=False)
    missing, unexpected = set(result.missing_keys), list(result.unexpected_keys)
    for others in duplicates.values():
        for other in others:
            if other in missing:
                missing.remove(other)
            else:
                unexpected.append(other)
    if strict and (missing or unexpected):
        lines = [f"Error(s) in loading state_dict for {type(model).__name__}:"]
        for title, names in (("Missing", missing), ("Unexpected", unexpected)):
            if names:
                shown = ", ".join(f'"{name}"' for name in sorted(names))
                lines.append(f"    {title} key(s) in state_dict: {shown}")
        raise RuntimeError("\n".join(lines))
    return sorted(missing), unexpected


def _duplicates(
    state: Mapping[str, torch.Tensor], preferred: Container[str] = ()
) -> dict[str, list[str]]:
    """Returns the names to omit from a file, by the name that is stored. Of tensors
    that overlap, one that covers all of their memory is stored, preferably a
    `preferred` one."""
    storages: dict[tuple[Any, int], list[tuple[int, int, str]]] = {}
    for name, tensor in state.items():
        length = tensor.numel() * tensor.element_size()
        if not length or tensor.device.type == "meta":
            continue
        start, storage = tensor.data_ptr(), tensor.untyped_storage()
        if not tensor.is_contiguous():
            # The elements may be anywhere in the storage.
            start, length = storage.data_ptr(), storage.nbytes()
        place = tensor.device, storage.data_ptr()
        storages.setdefault(place, []).append((start, start + length, name))
    result = {}
    for ranges in storages.values():
        for names in _overlapping(ranges):
            if len(names) < 2:
                continue
            complete = sorted(name for name in names if _is_complete(state[name]))
            if not complete:
                raise RuntimeError(
                    f"{', '.join(names)} share memory, and none of them covers all of it: "
                    "give copies of them, or remove those that are not needed"
                )
            kept = next((name for name in complete if name in preferred), complete[0])
            result[kept] = [name for name in names if name != kept]
    return result


def _overlapping(ranges: list[tuple[int, int, str]]) -> Iterator[list[str]]:
    """Yields the sorted names of each group of overlapping ranges."""
    names: list[str] = []
    end = 0
    for start, own_end, name in sorted(ranges):
        if names and start >= end:
            yield sorted(names)
            names = []
        names.append(name)
        end = max(end, own_end)
    yield sorted(names)


def _is_complete(tensor: torch.Tensor) -> bool:
    storage = tensor.untyped_storage()
    length = tensor.numel() * tensor.element_size()
    return tensor.data_ptr() == storage.data_ptr() and length == storage.nbytes()


def load(data: Any) -> dict[str, torch.Tensor]:
    """Reads all tensors from the bytes of a plain or packed file."""
    return _save.load(data, to_torch)


def load_file(
    filename: str | os.PathLike[str], device: str | int = "cpu", *, backend: Backend = "mmap"
) -> dict[str, torch.Tensor]:
    """Reads all tensors of a plain or packed file. If the environment variable ``ZSTN_GPU``
    is 1, NVIDIA GPUs decode them, without comparing their digests."""
    return _save.load_file(filename, "torch", device, backend)


def release_buffers() -> None:
    """Frees the pinned memory that is kept for further reads onto GPUs, at most 512 MiB for
    each GPU."""
    _native.release_gpu_buffers()


def stored(tensors: Mapping[str, torch.Tensor]) -> Iterator[_save.Stored]:
    """Yields tensors as safetensors stores them, without a copy if possible."""
    if not isinstance(tensors, Mapping):
        raise ValueError(f"Expected a dict of [str, torch.Tensor] but received {type(tensors)}")
    shared = _Shared()
    for name, tensor in tensors.items():
        if not isinstance(tensor, torch.Tensor):
            raise ValueError(f"Key `{name}` is invalid, expected torch.Tensor but received {type(tensor)}")
        if tensor.layout != torch.strided:
            raise ValueError(f"`{name}` is a sparse tensor, which safetensors cannot store: make it dense")
        if not tensor.is_contiguous():
            raise ValueError(
                f"`{name}` is not contiguous: pass its `.contiguous()` copy; otherwise, readers of "
                "the file would get a different layout"
            )
        dtype = _NAMES.get(tensor.dtype)
        if dtype is None:
            raise ValueError(f"`{name}`: safetensors has no dtype {tensor.dtype}")
        other = shared.add(name, tensor)
        if other is not None:
            raise RuntimeError(
                f"`{other}` and `{name}` share memory: safetensors would write it twice. "
                "Remove one of them, or give a copy"
            )
        shape = tuple(tensor.shape)
        if dtype == "F4" and shape:
            shape = (*shape[:-1], shape[-1] * 2)
        yield name, dtype, shape, _bytes(tensor)


class _Shared:
    """The memory ranges of tensors, to find tensors that overlap."""

    def __init__(self) -> None:
        # Sorted ranges that do not overlap, by device.
        self._ranges: dict[torch.device, list[tuple[int, int, str]]] = {}

    def add(self, name: str, tensor: torch.Tensor) -> str | None:
        """Adds a tensor, or returns the name of a tensor that shares memory with it."""
        length = tensor.numel() * tensor.element_size()
        if not length or tensor.device.type == "meta":
            return None
        start = tensor.data_ptr()
        ranges = self._ranges.setdefault(tensor.device, [])
        at = bisect.bisect(ranges, (start, start + length, name))
        # The ranges do not overlap, so only the neighbours need checking.
        for other_start, other_end, other in ranges[max(at - 1, 0) : at + 1]:
            if other_start < start + length and start < other_end:
                return other
        ranges.insert(at, (start, start + length, name))
        return None


def _bytes(tensor: torch.Tensor) -> Any:
    if not tensor.numel():
        return b""
    # NumPy supports the buffer protocol and torch does not. The view is uint8 because
    # NumPy lacks most dtypes.
    return tensor.detach().cpu().reshape(-1).view(torch.uint8).numpy()
