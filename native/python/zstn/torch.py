"""torch's tensors to files and back, with the functions of ``safetensors.torch``."""

from __future__ import annotations

import bisect
import os
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from . import _save
from ._frameworks import _TORCH, to_torch

_NAMES = {
    getattr(torch, name): dtype for dtype, name in _TORCH.items() if hasattr(torch, name)
}


def save(
    tensors: Mapping[str, torch.Tensor],
    metadata: Mapping[str, str] | None = None,
    *,
    format: str | None = None,
    effort: str = "balanced",
) -> bytes:
    """Returns the bytes of a safetensors file, or with ``format="zstn"`` of a
    packed one."""
    return _save.save(stored(tensors), metadata, format, effort)


def save_file(
    tensors: Mapping[str, torch.Tensor],
    filename: str | os.PathLike[str],
    metadata: Mapping[str, str] | None = None,
    *,
    format: str | None = None,
    effort: str = "balanced",
) -> None:
    """Writes a safetensors file, or a packed one if its name ends in ``.zstn``
    or `format` is ``"zstn"``."""
    _save.save_file(stored(tensors), filename, metadata, format, effort)


def load(data: Any) -> dict[str, torch.Tensor]:
    """Reads all tensors of a file in memory, plain or packed."""
    return _save.load(data, to_torch)


def load_file(
    filename: str | os.PathLike[str], device: str | int = "cpu", *, backend: str = "mmap"
) -> dict[str, torch.Tensor]:
    """Reads all tensors of a file, plain or packed."""
    return _save.load_file(filename, "torch", device, backend)


def stored(tensors: Mapping[str, torch.Tensor]) -> Iterator[_save.Stored]:
    """Returns tensors as they are stored, without a copy where their memory is."""
    if not isinstance(tensors, Mapping):
        raise ValueError(f"Expected a dict of [str, torch.Tensor] but received {type(tensors)}")
    shared = _Shared()
    for name, tensor in tensors.items():
        if not isinstance(tensor, torch.Tensor):
            raise ValueError(f"Key `{name}` is invalid, expected torch.Tensor but received {type(tensor)}")
        if tensor.layout != torch.strided:
            raise ValueError(f"`{name}` is a sparse tensor, which safetensors has no place for: make it dense")
        if not tensor.is_contiguous():
            raise ValueError(
                f"`{name}` is not contiguous: give its `.contiguous()` copy, or the reader of the "
                "file would get another layout"
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
    """The memory of tensors, to find those that overlap."""

    def __init__(self) -> None:
        # Of each device, sorted.
        self._ranges: dict[torch.device, list[tuple[int, int, str]]] = {}

    def add(self, name: str, tensor: torch.Tensor) -> str | None:
        """Returns the name of a tensor that has some memory of this one."""
        length = tensor.numel() * tensor.element_size()
        if not length or tensor.device.type == "meta":
            return None
        start = tensor.data_ptr()
        ranges = self._ranges.setdefault(tensor.device, [])
        at = bisect.bisect(ranges, (start, start + length, name))
        # None of them overlap, so that the neighbours are enough.
        for other_start, other_end, other in ranges[max(at - 1, 0) : at + 1]:
            if other_start < start + length and start < other_end:
                return other
        ranges.insert(at, (start, start + length, name))
        return None


def _bytes(tensor: torch.Tensor) -> Any:
    if not tensor.numel():
        return b""
    # NumPy has the buffer protocol and torch has not. Of uint8, since NumPy
    # lacks most dtypes.
    return tensor.detach().cpu().reshape(-1).view(torch.uint8).numpy()
