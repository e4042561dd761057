"""Checkpoints whose weights were quantised and are stored as floats, like uploads whose names end in "-BF16".

Matrices are quantised; vectors are only rounded to the dtype.
"""

import functools

from . import float_grids, integers
from .base_model import rounded

# Name of a quantisation -> its function of a matrix. In int8t to int4c, the suffix means one scale per tensor (t) or
# per row (c).
KINDS = {
    "int8t": functools.partial(integers.symmetric, bits=8, axis=None),
    "int8c": functools.partial(integers.symmetric, bits=8),
    "int4t": functools.partial(integers.symmetric, bits=4, axis=None),
    "int4c": functools.partial(integers.symmetric, bits=4),
    "int4g128": functools.partial(integers.symmetric_groups, bits=4, width=128),
    "int4g32": functools.partial(integers.symmetric_groups, bits=4, width=32),
    "int4ag128": functools.partial(integers.asymmetric_groups, bits=4, width=128),
    "int4ag32": functools.partial(integers.asymmetric_groups, bits=4, width=32),
    "nf4g64": functools.partial(float_grids.nf4, width=64),
    "fp8b128": functools.partial(float_grids.fp8_blocks, height=128, width=128),
    "nvfp4g16": functools.partial(float_grids.nvfp4, width=16),
    "mxfp4g32": functools.partial(float_grids.mxfp4, width=32),
    "ternary": integers.ternary,
}


def quantised(kind, dtype):
    """The checkpoint with this quantisation, stored in this dtype."""
    change = KINDS[kind]
    return rounded(dtype, lambda values: change(values) if values.ndim > 1 else values)


def _named(kinds, dtypes):
    return {
        f"minilm-{kind}-{dtype.lower()}": functools.partial(quantised, kind, dtype) for kind in kinds for dtype in dtypes
    }


# Checkpoints that are part of every measurement, and of the tests.
FIRST = {
    **_named(["int8t"], ["BF16", "F32"]),
    **_named(["int8c"], ["BF16"]),
    **_named(["int4t"], ["BF16", "F32"]),
    **_named(["int4c"], ["BF16"]),
}
# Additional checkpoints, in bfloat16 for further training, and in float16 as some tools dequantise.
MORE = {
    **_named(["int4g128", "int4g32", "int4ag128", "int4ag32"], ["BF16", "F16"]),
    **_named(["nf4g64", "fp8b128"], ["BF16", "F16"]),
    **_named(["nvfp4g16", "mxfp4g32", "ternary"], ["BF16"]),
}
