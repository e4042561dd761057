"""`safe_open`, compatible with safetensors."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, overload

from . import _gpu, _native
from ._errors import TensorNotFoundError, ZstnError
from ._frameworks import find, imported
from ._reader import Opening, Slice, tensor_name
from ._sources import http_options
from ._types import Backend, JaxName, NumpyArray, NumpyName, TorchName

if TYPE_CHECKING:
    import jax
    import torch

T = TypeVar("T")

#: Frameworks that are imported when a file is opened for them.
_IMPORTED = {"torch": "torch", "paddle": "paddle"}


class MissingFileError(FileNotFoundError):
    # Callers of safetensors may look for the words of this message.
    def __str__(self) -> str:
        return f"{self.strerror}: {self.filename}"



class safe_open(Generic[T]):  # noqa: N801 - the name of the class that it replaces
    """Opens a model and returns its tensors one by one, like
    ``safetensors.safe_open``. It opens both plain safetensors and packed files.

    Args:
        filename: a path or an address.
        framework: ``"pt"``, ``"np"``, ``"flax"``, ``"tf"``, ``"mlx"`` or ``"paddle"``.
        device: the device of the tensors. If the environment variable ``ZSTN_GPU`` is 1,
            NVIDIA GPUs decode tensors of torch, without comparing their digests.
        backend: ``"mmap"`` or ``"pread"``; both only read the requested tensors.
    """

    @overload
    def __init__(
        self: safe_open[NumpyArray],
        filename: str | os.PathLike[str],
        framework: NumpyName,
        device: Any = ...,
        *,
        backend: Backend = ...,
    ) -> None: ...
    @overload
    def __init__(
        self: safe_open[torch.Tensor],
        filename: str | os.PathLike[str],
        framework: TorchName,
        device: Any = ...,
        *,
        backend: Backend = ...,
    ) -> None: ...
    @overload
    def __init__(
        self: safe_open[jax.Array],
        filename: str | os.PathLike[str],
        framework: JaxName,
        device: Any = ...,
        *,
        backend: Backend = ...,
    ) -> None: ...
    @overload
    def __init__(
        self: safe_open[Any],
        filename: str | os.PathLike[str],
        framework: str,
        device: Any = ...,
        *,
        backend: Backend = ...,
    ) -> None: ...
    def __init__(
        self,
        filename: str | os.PathLike[str],
        framework: str,
        device: Any = "cpu",
        *,
        backend: Backend = "mmap",
    ) -> None:
        self._native: _native.Reader | None = None
        if backend not in ("mmap", "pread"):
            raise ZstnError(
                f'backend "{backend}" is invalid (expected one of: "mmap", "pread")', "usage"
            )
        self._framework, self._make = find(framework, device)
        self._framework_name = framework
        self._opening = Opening(filename, options={"dense": False})
        if self._framework in _IMPORTED:
            imported(_IMPORTED[self._framework])
        self._device = f"cuda:{device}" if isinstance(device, int) else device
        self._native = self._open(filename)

    def _open(self, filename: Any) -> _native.Reader:
        if not isinstance(filename, str | os.PathLike):
            raise TypeError(f"a filename is a path, not {type(filename).__name__}")
        try:
            return _native.Reader(filename, None, http_options(), False, 0)
        except FileNotFoundError:
            reason = os.strerror(errno.ENOENT)
            raise MissingFileError(errno.ENOENT, reason, os.fspath(filename)) from None

    def _opened(self) -> _native.Reader:
        if self._native is None:
            raise ZstnError("File is closed", "closed")
        return self._native

    def _find(self, name: str) -> _native.TensorInfo:
        info = self._opened().find(tensor_name(name))
        if info is None:
            raise TensorNotFoundError(f"File does not contain tensor {name}")
        return info

    def keys(self) -> list[str]:
        """Returns the names of the tensors, sorted."""
        return sorted(self._opened().keys())

    def offset_keys(self) -> list[str]:
        """Returns the names of the tensors, in the order of their data."""
        return self._opened().offset_keys()

    def metadata(self) -> dict[str, str] | None:
        """Returns the ``__metadata__`` of the header; `None` if it is missing or empty.
        """
        return self._opened().metadata() or None

    def get_tensor(self, name: str) -> T:
        """Reads a tensor as a tensor of the framework, on the given device."""
        info = self._find(name)
        tensors = _gpu.read(self._opened(), [info], self._framework, self._device)
        if tensors is not None:
            return tensors[0]
        memory = self._opened().read(name)
        return self._make(memory, info.dtype, info.shape, self._device)

    def get_tensors(self) -> dict[str, T]:
        """Reads all tensors into a dictionary by name."""
        names = self.offset_keys()
        if _gpu.find(self._framework, self._device) is not None:
            infos = [self._find(name) for name in names]
            tensors = _gpu.read(self._opened(), infos, self._framework, self._device)
            if tensors is not None:
                return dict(zip(names, tensors, strict=True))
        return {name: self._made(name, memory) for name, memory in self._read(names)}

    def _read(self, names: list[str]) -> Any:
        return zip(names, self._opened().read_many(names), strict=True)

    def _made(self, name: str, memory: Any) -> Any:
        info = self._find(name)
        return self._make(memory, info.dtype, info.shape, self._device)

    def get_slice(self, name: str) -> Slice[T]:
        """Returns a tensor that is read only when it is indexed. It remains readable
        after the file has been closed."""
        info = self._find(name)
        reader, opening = self._opened(), self._opening
        return Slice(reader, info, self._framework_name, self._device, opening, on_gpu=True)

    def __len__(self) -> int:
        return self._opened().len()

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._opened().find(name) is not None

    def __reduce__(self) -> Any:
        return _open_again, (self._opening, self._framework_name, self._device)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # Slices keep their own reference to the open file.
        self._native = None


def _open_again(opening: Opening, framework: str, device: Any) -> safe_open[Any]:
    return safe_open(opening.source, framework, device)


class _safe_open_handle(safe_open[Any]):  # noqa: N801  # pyright: ignore[reportUnusedClass]
    """Opens a model in a file object, like the class of safetensors with this name."""

    def _open(self, filename: Any) -> _native.Reader:
        # The original accepts a file opened in text mode, as it uses only its
        # descriptor.
        binary = getattr(filename, "buffer", filename)
        return _native.Reader(binary, None, http_options(), False, 0)
