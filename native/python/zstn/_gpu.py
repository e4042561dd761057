"""Decoding of tensors on NVIDIA GPUs, into the memory of torch."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any

from . import _native
from ._frameworks import is_cpu, torch_dtype, torch_shape
from ._log import LOGGER
from ._slices import Plan


class Gpu:
    """A CUDA device of torch."""

    #: The type of the device that tensors have.
    type = "cuda"

    def __init__(self, device: Any) -> None:
        self._device = device

    @property
    def number(self) -> int:
        import torch

        index = self._device.index
        return torch.cuda.current_device() if index is None else index

    @property
    def stream(self) -> int:
        """The current stream, as the driver names it. Memory that torch returns may be
        used by unfinished work of this stream."""
        import torch

        return torch.cuda.current_stream(self._device).cuda_stream

    def empty(self, shape: Sequence[int], dtype: Any) -> Any:
        import torch

        return torch.empty(shape, dtype=dtype, device=self._device)


def find(framework: str, device: Any) -> Gpu | None:
    """Returns the GPU of a device of torch; `None` if it is no NVIDIA GPU, or unless the
    variable ``ZSTN_GPU`` is 1."""
    if framework != "torch" or is_cpu(device) or os.environ.get("ZSTN_GPU") != "1":
        return None
    import torch

    device = torch.device(device)
    is_cuda = device.type == "cuda" and torch.version.cuda is not None
    return Gpu(device) if is_cuda else None


def read(
    reader: _native.Reader, infos: Sequence[_native.TensorInfo], framework: str, device: Any
) -> list[Any] | None:
    """Reads tensors onto a GPU, each into memory of its own. Returns `None` if no GPU can
    decode them, so that the CPU has to."""
    gpu = find(framework, device)
    if gpu is None:
        return None
    try:
        tensors = [_empty(gpu, info) for info in infos]
    except RuntimeError as error:
        # The GPU has too little memory, or a damaged file states a shape of any size.
        LOGGER.info("tensors are decoded on the CPU: %s", error)
        return None
    if not all(map(_is_in_memory, [gpu] * len(infos), infos, tensors)):
        return None
    places = [(info.name, tensor.data_ptr()) for info, tensor in zip(infos, tensors, strict=True)]
    by_cpu, reason = reader.read_into_device(gpu.number, gpu.stream, places)
    if reason is not None:
        LOGGER.info("tensors are decoded on the CPU: %s", reason)
        return None
    if by_cpu:
        LOGGER.info("%d of %d tensors were decoded on the CPU", by_cpu, len(tensors))
    return tensors


def _empty(gpu: Gpu, info: _native.TensorInfo) -> Any:
    return gpu.empty(torch_shape(info.dtype, info.shape), torch_dtype(info.dtype))


def _is_in_memory(gpu: Gpu, info: _native.TensorInfo, tensor: Any) -> bool:
    """Returns whether a new tensor has memory of the GPU for all bytes. Tensors of modes
    such as `FakeTensorMode` have none."""
    import torch

    is_plain = type(tensor) is torch.Tensor and tensor.device.type == gpu.type
    is_complete = tensor.nbytes == info.nbytes
    return is_plain and is_complete and (not info.nbytes or tensor.data_ptr() != 0)


def read_slice(
    reader: _native.Reader, info: _native.TensorInfo, planned: Plan, framework: str, device: Any
) -> Any:
    """Reads a part of a tensor onto a GPU. Returns `None` if the CPU has to decode it, or
    if it is less than half of the tensor, of which the CPU decodes only this part. Of a
    tensor on a server, the CPU reads every part."""
    steps = [pick for pick in planned.picks if not isinstance(pick, bytes)]
    is_simple = len(steps) == len(planned.picks) and planned.rest is None
    if not is_simple or any(step < 1 for _, step, _ in steps):
        return None
    selected = math.prod(count for _, _, count in steps)
    size = math.prod(info.shape)
    is_whole = selected == size
    is_split = info.dtype == "F4" and (not is_whole or planned.shape[-1:] != [*info.shape][-1:])
    if 2 * selected < size or is_split or (reader.is_remote() and not is_whole):
        return None
    tensors = read(reader, [info], framework, device)
    if tensors is None:
        return None
    if is_whole:
        return tensors[0].reshape(torch_shape(info.dtype, planned.shape))
    index = tuple(slice(start, start + step * count, step) for start, step, count in steps)
    # A view would keep the memory of the whole tensor.
    return tensors[0][index].reshape(planned.shape).clone()
