"""Conversion of NumPy indices to the parts of a tensor that are read."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ._errors import SliceError

if TYPE_CHECKING:
    from ._native import TensorInfo

#: The selected indices of a dimension: start, step and number of indices, or ascending
#: indices as little-endian integers of 64 bits.
Pick = tuple[int, int, int] | bytes


class Plan(NamedTuple):
    """The part of a tensor to read, and how to make the result from it."""

    #: The selected indices of each dimension.
    picks: list[Pick]
    #: The shape of the result, or of the part if there is an index to apply.
    shape: list[int]
    #: The index that selects the result from the part; `None` if the part is the result.
    rest: tuple[Any, ...] | None


def plan(index: Any, shape: Sequence[int]) -> Plan | None:
    """Returns the part of a tensor of this shape that an index needs: the intersections
    of the indices that it selects in each dimension.

    Returns `None` if the index contains other items than integers, slices, `None`,
    `...`, lists and arrays, so that a framework has to apply it to the whole tensor.
    """
    items = list(index) if isinstance(index, tuple) else [index]
    for number, item in enumerate(items):
        if not _is_basic(item):
            items[number] = _array(item)
            if items[number] is None:
                return None
    ellipses = sum(item is ... for item in items)
    if ellipses > 1:
        raise SliceError("an index has at most one ellipsis (`...`)")
    taken = sum(map(_dimensions, items))
    if taken > len(shape):
        raise SliceError(f"{taken} indices for a tensor of {len(shape)} dimensions")
    if not ellipses:
        items.append(...)
    builder = _Builder(shape)
    for item in items:
        if item is None:
            builder.new_dimension()
        elif item is ...:
            builder.ellipsis(len(shape) - taken)
        elif isinstance(item, slice):
            builder.slice(item)
        elif isinstance(item, _Array):
            builder.array(item)
        else:
            builder.integer(operator.index(item))
    return builder.plan()


def has_whole_bytes(info: TensorInfo, planned: Plan) -> bool:
    """Returns whether the planned part of a tensor consists of whole bytes."""
    if info.dtype != "F4":
        return True
    length = info.shape[-1]
    return length % 2 == 0 and planned.picks[-1] == (0, 1, length)


def _is_basic(item: Any) -> bool:
    if item is None or item is ... or isinstance(item, slice):
        return True
    if isinstance(item, bool):
        # NumPy interprets a `bool` as a mask.
        return False
    try:
        operator.index(item)
    except TypeError:
        return False
    return getattr(item, "shape", ()) == ()


class _Array(NamedTuple):
    """A list or an array of indices, or a mask."""

    values: Any
    original: Any

    def like_original(self, positions: Any) -> Any:
        """Converts an array to the type of the original."""
        if isinstance(self.original, list):
            return positions.tolist()
        if _is_torch(self.original):
            import torch

            return torch.from_numpy(positions).to(self.original.device)
        return positions


def _array(item: Any) -> _Array | None:
    if not isinstance(item, list) and not hasattr(item, "__array__"):
        return None
    try:
        import numpy as np

        values = _to_numpy(item)
    except (ImportError, ValueError):
        # The framework accepts or refuses a list with unequal lengths.
        return None
    if isinstance(item, list) and not values.size:
        values = values.astype(np.int64)
    if not values.ndim or (_is_torch(item) and values.dtype == np.uint8):
        # A single truth value, or bytes, which torch interprets as a mask.
        return None
    if values.dtype.kind not in "biu":
        raise SliceError(f"an array of {values.dtype} is not an index; use integers or a mask")
    return _Array(values, item)


def _to_numpy(item: Any) -> Any:
    import numpy as np

    return np.asarray(item.cpu() if _is_torch(item) else item)


def _is_torch(item: Any) -> bool:
    return type(item).__module__.partition(".")[0] == "torch"


def _dimensions(item: Any) -> int:
    """Returns the number of dimensions of the tensor that an item selects from."""
    if item is None or item is ...:
        return 0
    is_mask = isinstance(item, _Array) and item.values.dtype == bool
    return item.values.ndim if is_mask else 1


class _Builder:
    def __init__(self, shape: Sequence[int]) -> None:
        self.tensor_shape = shape
        self.picks: list[Pick] = []
        #: The number of selected indices in each dimension.
        self.counts: list[int] = []
        #: The shape of the result if there is no index to apply.
        self.result: list[int] = []
        self.rest: list[Any] = []
        self.integers = 0
        self.arrays = 0
        #: Whether all arrays select their part of the tensor as it is read.
        self.is_in_order = True

    def _pick(self, pick: Pick, count: int) -> None:
        self.picks.append(pick)
        self.counts.append(count)

    def _length(self) -> int:
        """Returns the length of the next dimension."""
        return self.tensor_shape[len(self.picks)]

    def new_dimension(self) -> None:
        self.result.append(1)
        self.rest.append(None)

    def ellipsis(self, dimensions: int) -> None:
        for _ in range(dimensions):
            self.result.append(self._length())
            self._pick((0, 1, self._length()), self._length())
        self.rest.append(...)

    def slice(self, item: slice) -> None:
        indices = range(*item.indices(self._length()))
        count = len(indices)
        # An empty selection may start outside the dimension.
        self._pick((indices.start if count else 0, indices.step, count), count)
        self.result.append(count)
        self.rest.append(slice(None))

    def integer(self, position: int) -> None:
        length = self._length()
        if not -length <= position < length:
            raise self._outside(position)
        self._pick((position % length, 1, 1), 1)
        self.rest.append(0)
        self.integers += 1

    def array(self, item: _Array) -> None:
        import numpy as np

        values = item.values
        if values.dtype == bool:
            lengths = tuple(self.tensor_shape[len(self.picks) :][: values.ndim])
            if values.shape != lengths:
                raise SliceError(f"a mask of shape {values.shape} for dimensions of lengths {lengths}")
            arrays = values.nonzero()
        else:
            arrays = (values,)
        for array in arrays:
            length = self._length()
            outside = array >= length
            if array.dtype.kind == "i":
                outside |= array < -length
            if outside.any():
                raise self._outside(array[outside][0])
            array = array.astype(np.int64)
            array = np.where(array < 0, array + length, array)
            rows, positions = np.unique(array, return_inverse=True)
            positions = positions.reshape(array.shape)
            is_in_order = array.ndim == 1 and np.array_equal(array, rows)
            self.is_in_order = self.is_in_order and is_in_order
            self._pick(rows.astype("<u8").tobytes(), len(rows))
            self.result.append(len(rows))
            self.rest.append(item.like_original(positions))
            self.arrays += 1

    def _outside(self, position: int) -> SliceError:
        return SliceError(
            f"index {position} is out of bounds for dimension {len(self.picks)} of length "
            f"{self._length()}"
        )

    def plan(self) -> Plan:
        # Arrays are combined with each other and with integers.
        is_result = self.arrays == 0 or (
            self.arrays == 1 and not self.integers and self.is_in_order
        )
        if is_result:
            return Plan(self.picks, self.result, None)
        return Plan(self.picks, self.counts, tuple(self.rest))
