"""Splitting elements into byte planes, like the module ``z4ai.transforms``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def split_planes(buf: Any, width: int) -> list[bytes]:
    """Returns the first bytes of all complete elements, then their second bytes, and so
    on."""
    if width <= 0:
        raise ValueError(f"width must be positive, got {width}")
    count = len(buf) // width
    elements = np.frombuffer(buf, np.uint8, count * width).reshape(count, width)
    return [elements[:, place].tobytes() for place in range(width)]


def join_planes(planes: Sequence[Any], width: int, tail: bytes = b"") -> bytes:
    """Joins planes to the buffer that they were split from."""
    if len(planes) != width:
        raise ValueError(f"expected {width} planes, got {len(planes)}")
    if len({len(plane) for plane in planes}) > 1:
        raise ValueError("planes have inconsistent lengths")
    columns = [np.frombuffer(plane, np.uint8) for plane in planes]
    return np.stack(columns, axis=1).tobytes() + tail


def tail_len(length: int, width: int) -> int:
    """Returns the number of bytes after the last complete element."""
    return length % width


def width_for_itemsize(itemsize: int) -> int:
    """Returns the split width for elements of this length in bytes."""
    return max(itemsize, 1)
