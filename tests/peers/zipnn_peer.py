"""ZipNN, where it is installed."""

import importlib.machinery
import importlib.util
import sys
from unittest import mock

DTYPES = {"BF16": "bfloat16", "F16": "float16", "F32": "float32"}


def load():
    """The class, or None where the package is missing."""
    if importlib.util.find_spec("zipnn") is None:
        return None
    if importlib.util.find_spec("torch") is None:
        stand_in = mock.MagicMock(name="torch")
        stand_in.__spec__ = importlib.machinery.ModuleSpec("torch", None)
        stand_in.jit.script = lambda function: function
        sys.modules["torch"] = stand_in
        sys.modules["safetensors.torch"] = mock.MagicMock()
    from zipnn import ZipNN

    return ZipNN


def takes(dtype, raw):
    """Whether it compresses bytes of this dtype."""
    return dtype in DTYPES and len(raw) > 0


def make(coder, dtype, threads):
    """One of its coders, which is for one tensor."""
    return coder(input_format="byte", bytearray_dtype=DTYPES[dtype], threads=threads)


def checkpoint_size(coder, header, data):
    """The sum over all tensors, each coded by itself as its own tools do; without names and shapes."""
    total = 0
    for tensor in header.values():
        raw = data[slice(*tensor["data_offsets"])]
        # It changes its buffer, so it gets a copy.
        taken = takes(tensor["dtype"], raw)
        total += len(make(coder, tensor["dtype"], 1).compress(bytearray(raw))) if taken else len(raw)
    return total
