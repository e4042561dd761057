"""ZipNN, if it is installed."""

import importlib.machinery
import importlib.util
import sys
from unittest import mock

DTYPES = {"BF16": "bfloat16", "F16": "float16", "F32": "float32"}


def load():
    """The class, or None if the package is not installed."""
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
    """Whether ZipNN compresses bytes of this dtype."""
    return dtype in DTYPES and len(raw) > 0


def make(coder, dtype, threads):
    """A coder for one tensor."""
    return coder(input_format="byte", bytearray_dtype=DTYPES[dtype], threads=threads)


def checkpoint_size(coder, header, data):
    """The total length over all tensors, each coded separately as ZipNN's own tools do, without names and shapes."""
    total = 0
    for tensor in header.values():
        raw = data[slice(*tensor["data_offsets"])]
        # ZipNN modifies its input, so it gets a copy.
        taken = takes(tensor["dtype"], raw)
        total += len(make(coder, tensor["dtype"], 1).compress(bytearray(raw))) if taken else len(raw)
    return total
