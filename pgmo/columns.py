"""Functions for columns of numbers, such as the sizes of a profile's blocks."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from pgmo.errors import PgmoError


def distinct(values: NDArray[Any]) -> NDArray[Any]:
    """Return the distinct values of an array in ascending order.

    Unlike `numpy.unique`, this function does not import `numpy.ma`, which takes a megabyte of
    memory.
    """
    ordered = np.sort(values, axis=None, kind="stable")
    return ordered[_first_ones(ordered)]


def numbered(values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the distinct values in ascending order, and for each entry the index of its value.

    The result equals that of `numpy.unique(..., return_inverse=True)`. But this function uses only
    numpy's stable sort, which planning loads anyway. Each of numpy's other sorts would load a third
    of a megabyte of code.

    Example:
        >>> values, number = numbered(np.array([30, 10, 30]))
        >>> values.tolist(), number.tolist()
        ([10, 30], [1, 0, 1])
    """
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    first = _first_ones(ordered)
    number = np.empty(len(ordered), np.int64)
    number[order] = np.cumsum(first) - 1
    return ordered[first], number


def numbered_rows(*columns: NDArray[Any]) -> NDArray[np.int64]:
    """Return the index of each row among the distinct rows in lexicographic order, shape (n,)."""
    joint = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        number = numbered(column)[1]
        joint = joint * (int(number.max(initial=0)) + 1) + number
    return numbered(joint)[1]


def _first_ones(ordered: NDArray[Any]) -> NDArray[np.bool_]:
    """Return a mask of the entries of a sorted array that differ from the preceding one."""
    first = np.ones(len(ordered), np.bool_)
    first[1:] = ordered[1:] != ordered[:-1]
    return first


def is_among(values: NDArray[Any], wanted: ArrayLike) -> NDArray[np.bool_]:
    """Return a mask of the values that are in `wanted`, like `numpy.isin` without `numpy.ma`."""
    ordered = np.sort(np.asarray(wanted, np.int64), kind="stable")
    if not len(ordered):
        return np.zeros(len(values), np.bool_)
    at = np.minimum(np.searchsorted(ordered, values), len(ordered) - 1)
    found: NDArray[np.bool_] = ordered[at] == values
    return found


def as_column(
    name: str, value: ArrayLike, dtype: DTypeLike, error: type[PgmoError]
) -> NDArray[Any]:
    """Return a read-only flat array of the given type, without changing any number.

    Args:
        name: name of the column, for messages.
        value: array-like of shape (n,). A contiguous array of the type is not copied.
        dtype: type of integers or Booleans.
        error: class of the error to raise if the value is not flat, or a number is not whole or
            does not fit.
    """
    wanted = np.dtype(dtype)
    array = np.asarray(value)
    if array.ndim != 1:
        raise error(f"column {name!r} has shape {array.shape}; give a flat list of numbers")
    if array.dtype != wanted:
        if array.size and array.dtype.kind not in "iub":
            raise error(f"column {name!r} holds {array.dtype}; give whole numbers")
        converted = array.astype(wanted)
        odd = np.flatnonzero((converted != array) | ((converted < 0) != (array < 0)))
        if odd.size:
            row = int(odd[0])
            raise error(f"row {row}: {name} {array[row]} does not fit in {wanted}")
        array = converted
    array = np.ascontiguousarray(array).view()
    array.flags.writeable = False
    return array


def check_columns(
    owner: object, types: Mapping[str, DTypeLike], row: str, error: type[PgmoError]
) -> None:
    """Replace the columns of a frozen dataclass by the results of `as_column`, of equal lengths.

    Args:
        owner: the dataclass.
        types: type of each column by name. The first column determines the number of rows.
        row: what each row describes, for messages, such as "block".
        error: class of the error to raise, as for `as_column`.
    """
    first = next(iter(types))
    for name, dtype in types.items():
        column = as_column(name, getattr(owner, name), dtype, error)
        object.__setattr__(owner, name, column)
        count = len(getattr(owner, first))
        if len(column) != count:
            raise error(
                f"column {name!r} has {len(column)} rows, {first!r} has {count}; give one for each "
                f"{row}"
            )
