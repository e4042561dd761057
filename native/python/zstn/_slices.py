"""Indices of NumPy as what is read of a tensor."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from ._errors import SliceError

#: Start, step and number of indices of a dimension.
Pick = tuple[int, int, int]


def plan(index: Any, shape: Sequence[int]) -> tuple[list[Pick], list[int]] | None:
    """Returns what to read of each dimension, and the shape of the result.

    `None` means that the index takes more than slices and integers, and has
    to be applied to the whole tensor.
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
    # A step before the first index never happens; keep it inside.
    return [(start if count else 0, step, count) for start, step, count in picks], result


def _is_other(item: Any) -> bool:
    if item is None or item is ... or isinstance(item, slice):
        return False
    if isinstance(item, bool):
        # To NumPy a mask.
        return True
    try:
        operator.index(item)
    except TypeError:
        return True
    return getattr(item, "shape", ()) != ()
