"""Conversion of tensor bytes to tensors of a framework, and of dtypes."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from ._errors import ZstnError

#: dtypes that NumPy supports itself.
_NUMPY = {
    "BOOL": "bool",
    "U8": "uint8",
    "I8": "int8",
    "I16": "int16",
    "U16": "uint16",
    "F16": "float16",
    "I32": "int32",
    "U32": "uint32",
    "F32": "float32",
    "C64": "complex64",
    "F64": "float64",
    "I64": "int64",
    "U64": "uint64",
}

#: dtypes that the package ml_dtypes adds to NumPy.
_ML_DTYPES = {
    "BF16": "bfloat16",
    "F8_E5M2": "float8_e5m2",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E8M0": "float8_e8m0fnu",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
    "F4": "float4_e2m1fn",
}

_NAMES = {name: dtype for names in (_NUMPY, _ML_DTYPES) for dtype, name in names.items()}


def numpy_dtype(dtype: str) -> Any:
    """Returns the NumPy dtype for a safetensors dtype."""
    np = imported("numpy")

    if dtype in _NUMPY:
        return np.dtype(_NUMPY[dtype])
    if dtype not in _ML_DTYPES:
        raise TypeError(f"NumPy has no dtype for {dtype}; `reader.read(name)` gives its bytes")
    try:
        import ml_dtypes
    except ImportError:
        raise TypeError(
            f"NumPy itself has no dtype for {dtype}: `pip install ml_dtypes` adds it, "
            "and `reader.read(name)` gives the bytes"
        ) from None
    return np.dtype(getattr(ml_dtypes, _ML_DTYPES[dtype]))


def safetensors_dtype(dtype: Any) -> str:
    """Returns the safetensors dtype for a NumPy dtype."""
    name = _NAMES.get(dtype.name)
    if name is None:
        from ._errors import ZstnError

        raise ZstnError(f"safetensors has no dtype {dtype.name}", "unsupported")
    return name


def is_big_endian(dtype: Any) -> bool:
    order = dtype.byteorder
    return order == ">" or (order == "=" and sys.byteorder == "big")


#: Makes a tensor from memory, a dtype, a shape and a device.
Maker = Callable[[Any, str, Sequence[int], Any], Any]


def to_numpy(memory: Any, dtype: str, shape: Sequence[int], device: Any = "cpu") -> Any:
    """Returns an array that uses `memory` without a copy. NumPy has no elements of four
    bits, so each of them becomes a byte."""
    np = imported("numpy")

    element = numpy_dtype(dtype)
    if math.prod(shape) == 0:
        # `np.frombuffer` does not accept an empty buffer.
        return np.empty(shape, element)
    if dtype == "F4":
        pairs = np.frombuffer(memory, np.uint8)
        codes = np.empty((pairs.size, 2), np.uint8)
        np.bitwise_and(pairs, 15, out=codes[:, 0])
        np.right_shift(pairs, 4, out=codes[:, 1])
        return codes.view(element).reshape(shape)
    return np.frombuffer(memory, element).reshape(shape)


_TORCH = {
    "BOOL": "bool",
    "U8": "uint8",
    "I8": "int8",
    "I16": "int16",
    "U16": "uint16",
    "F16": "float16",
    "BF16": "bfloat16",
    "I32": "int32",
    "U32": "uint32",
    "F32": "float32",
    "C64": "complex64",
    "F64": "float64",
    "I64": "int64",
    "U64": "uint64",
    "F8_E5M2": "float8_e5m2",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E8M0": "float8_e8m0fnu",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
    "F4": "float4_e2m1fn_x2",
}


def torch_dtype(dtype: str) -> Any:
    import torch

    element = getattr(torch, _TORCH.get(dtype, ""), None)
    if element is None:
        raise TypeError(f"this version of torch has no dtype for {dtype}")
    return element


def torch_shape(dtype: str, shape: Sequence[int]) -> list[int]:
    """Returns the shape in elements of torch's dtype."""
    shape = list(shape)
    if dtype == "F4" and shape:
        # Each element of torch's dtype contains two values.
        shape[-1] //= 2
    return shape


def to_torch(memory: Any, dtype: str, shape: Sequence[int], device: Any = "cpu") -> Any:
    """Returns a tensor that uses `memory`, or a copy on another device."""
    torch = imported("torch")
    element = torch_dtype(dtype)
    shape = torch_shape(dtype, shape)
    if math.prod(shape) == 0:
        tensor = torch.empty(shape, dtype=element)
    else:
        # `frombuffer` supports few dtypes, `view` supports all.
        tensor = torch.frombuffer(memory, dtype=torch.uint8).view(element).reshape(shape)
    return tensor if is_cpu(device) else tensor.to(device)


def to_jax(memory: Any, dtype: str, shape: Sequence[int], device: Any = "cpu") -> Any:
    return imported("jax.numpy").array(to_numpy(memory, dtype, shape))


def to_mlx(memory: Any, dtype: str, shape: Sequence[int], device: Any = "cpu") -> Any:
    mx = imported("mlx.core")
    if dtype == "BF16":
        # mlx does not accept arrays with dtypes of ml_dtypes.
        return mx.array(to_numpy(memory, "U16", shape)).view(mx.bfloat16)
    if dtype.startswith("F8") or dtype == "F4":
        raise TypeError(f"mlx has no dtype for {dtype}")
    return mx.array(to_numpy(memory, dtype, shape))


def to_tensorflow(memory: Any, dtype: str, shape: Sequence[int], device: Any = "cpu") -> Any:
    return imported("tensorflow").convert_to_tensor(to_numpy(memory, dtype, shape))


def to_paddle(memory: Any, dtype: str, shape: Sequence[int], device: Any = "cpu") -> Any:
    paddle = imported("paddle")
    if dtype == "BF16":
        return paddle.to_tensor(to_numpy(memory, "U16", shape)).view("bfloat16")
    return paddle.to_tensor(to_numpy(memory, dtype, shape))


_MAKERS: dict[str, tuple[str, Maker]] = {
    **dict.fromkeys(("pt", "torch", "pytorch"), ("torch", to_torch)),
    **dict.fromkeys(("np", "numpy"), ("numpy", to_numpy)),
    **dict.fromkeys(("tf", "tensorflow"), ("tensorflow", to_tensorflow)),
    **dict.fromkeys(("flax", "jax"), ("flax", to_jax)),
    "mlx": ("mlx", to_mlx),
    "paddle": ("paddle", to_paddle),
}


#: Frameworks whose tensors are only made on the CPU, or on the framework's default device.
_WITHOUT_DEVICES = frozenset({"numpy", "flax", "mlx", "tensorflow"})


def find(framework: str, device: Any) -> tuple[str, Maker]:
    """Returns the name of a framework and the function that makes its tensors.

    Raises:
        ZstnError: with the code ``"usage"``, if there is no such framework, or if its
            tensors cannot be put on the device.
    """
    try:
        found = _MAKERS[framework]
    except (KeyError, TypeError):
        names = ", ".join(map(repr, _MAKERS))
        message = f"framework {framework} is invalid; it is one of {names}"
        raise ZstnError(message, "usage") from None
    if found[0] in _WITHOUT_DEVICES and not is_cpu(device):
        raise ZstnError(f"Device {device} is not supported for framework {found[0]}", "usage")
    return found


#: The names of packages that differ from those of their modules.
_PACKAGES = {"paddle": "paddlepaddle"}


def imported(module: str) -> Any:
    """Returns a module of a framework.

    Raises:
        ModuleNotFoundError: if the framework is not installed; the error states how to
            install it.
    """
    top = module.partition(".")[0]
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name not in (top, module):
            raise
        package = _PACKAGES.get(top, top)
        message = f"tensors of {top} need the package {package}: `pip install {package}`"
        raise ModuleNotFoundError(message, name=error.name) from error


def is_cpu(device: Any) -> bool:
    return device is None or str(device) == "cpu"
