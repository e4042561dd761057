"""Conversion of NumPy indices to the parts of a tensor that are read."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

from ._errors import SliceError

#: Start, step and number of indices in a dimension.
Pick = tuple[int, int, int]


#: Rows are read together if at most this many bytes separate them, because reading the
#: gap is as cheap as a separate request.
GAP_BYTES = 64 << 10

#: Maximum number of runs of rows that are read separately.
_MAX_RUNS = 1024


class RowsPlan(NamedTuple):
    """The ranges of rows to read, and how to select the indexed elements from them."""

    ranges: list[tuple[int, int]]
    #: Index that selects the wanted rows from the rows that were read.
    rows: Any
    #: Index that is applied to the selected rows.
    rest: tuple[Any, ...]


def plan_rows(index: Any, shape: Sequence[int], row_bytes: int) -> RowsPlan | None:
    """Returns the rows to read for an index whose first item is a list, an array or a
    slice with a step. Returns `None` if the whole tensor is to be read, for any other
    index, and if NumPy is missing.
    """
    items = index if isinstance(index, tuple) else (index,)
    if not items or not shape or any(item is ... for item in items[1:]):
        return None
    first, rest = items[0], items[1:]
    is_step = isinstance(first, slice)
    picked: Any = first
    if is_step:
        picked = range(*first.indices(shape[0]))
        if abs(picked.step) == 1 or not len(picked):
            return None
    elif not isinstance(first, list) and not hasattr(first, "__array__"):
        return None
    try:
        import numpy as np
    except ImportError:
        return None
    wanted = np.asarray(picked)
    if wanted.dtype == bool:
        if wanted.shape != (shape[0],):
            # The mask has more dimensions or a wrong length; the framework handles it.
            return None
        wanted = np.flatnonzero(wanted)
    if wanted.dtype.kind not in "iu" or not wanted.ndim or not wanted.size:
        return None
    wanted = wanted.astype(np.int64)
    outside = (wanted < -shape[0]) | (wanted >= shape[0])
    if outside.any():
        raise SliceError(
            f"index {wanted[outside][0]} is out of bounds for dimension 0 of length {shape[0]}"
        )
    wanted = np.where(wanted < 0, wanted + shape[0], wanted)
    rows = np.unique(wanted)
    distance = 1 + GAP_BYTES // max(row_bytes, 1)
    cuts = np.flatnonzero(np.diff(rows) > distance) + 1
    starts = rows[np.concatenate(([0], cuts))]
    ends = rows[np.concatenate((cuts - 1, [-1]))] + 1
    lengths = ends - starts
    if len(starts) > _MAX_RUNS or lengths.sum() == shape[0]:
        return None
    # The position of each run's first row among the rows that were read.
    places = np.concatenate(([0], np.cumsum(lengths)[:-1]))
    run = np.searchsorted(starts, wanted, side="right") - 1
    selected: Any = places[run] + wanted - starts[run]
    if isinstance(first, list):
        selected = selected.tolist()
    elif type(first).__module__.partition(".")[0] == "torch":
        import torch

        selected = torch.from_numpy(selected)
    ranges = list(zip(starts.tolist(), ends.tolist(), strict=True))
    if is_step:
        # The step is applied separately: next to a list, NumPy treats a slice
        # differently from a list.
        return RowsPlan(ranges, (selected,), (slice(None), *rest))
    return RowsPlan(ranges, None, (selected, *rest))


def plan(index: Any, shape: Sequence[int]) -> tuple[list[Pick], list[int]] | None:
    """Returns the part of each dimension to read, and the shape of the result.

    Returns `None` if the index contains more than slices and integers and has to be
    applied to the whole tensor.
    """
    items = list(index) if isinstance(index, tuple) else [index]
    if any(_is_other(item) for item in items):
        return None
    taken = sum(item is not None and item is not ... for item in items)
    ellipses = sum(item is ... for item in items)
    if ellipses > 1:
        raise SliceError("an index has at most one ellipsis (`...`)")
    if taken > len(shape):
        raise SliceError(f"{taken} indices for a tensor of {len(shape)} dimensions")
    rest = [slice(None)] * (len(shape) - taken)
    if not ellipses:
        items.append(...)
    at = next(number for number, item in enumerate(items) if item is ...)
    items[at : at + 1] = rest
    picks: list[Pick] = []
    result: list[int] = []
    for item in items:
        if item is None:
            result.append(1)
            continue
        length = shape[len(picks)]
        if isinstance(item, slice):
            indices = range(*item.indices(length))
            picks.append((indices.start, indices.step, len(indices)))
            result.append(len(indices))
            continue
        position = operator.index(item)
        if not -length <= position < length:
            raise SliceError(
                f"index {position} is out of bounds for dimension {len(picks)} of length {length}"
            )
        picks.append((position % length, 1, 1))
    # An empty selection may start outside the dimension; its start is set to 0.
    return [(start if count else 0, step, count) for start, step, count in picks], result


def _is_other(item: Any) -> bool:
    if item is None or item is ... or isinstance(item, slice):
        return False
    if isinstance(item, bool):
        # NumPy interprets a `bool` as a mask.
        return True
    try:
        operator.index(item)
    except TypeError:
        return True
    return getattr(item, "shape", ()) != ()
