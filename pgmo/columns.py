"""Columns of numbers: what profiles, problems and plans hold, one entry for each block."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from pgmo.errors import PgmoError


def distinct(values: NDArray[Any]) -> NDArray[Any]:
    """The different values of an array, in their order.

    `numpy.unique` alone imports `numpy.ma` to see whether they are masked: a megabyte of the
    program's, which may never need it.

    Example:
        >>> distinct(np.array([3, 1, 3])).tolist()
        [1, 3]
    """
    ordered = np.sort(values, axis=None, kind="stable")
    return ordered[_first_ones(ordered)]


def numbered(values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The different values of an array, in their order, and for each entry which of them it is.

    As `numpy.unique(..., return_inverse=True)`, with the stable sort, which all of planning uses:
    each of numpy's other sorts is a third of a megabyte of code that would have to be there.

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


def _first_ones(ordered: NDArray[Any]) -> NDArray[np.bool_]:
    """Which entries of a sorted array differ from the one before."""
    first = np.ones(len(ordered), np.bool_)
    first[1:] = ordered[1:] != ordered[:-1]
    return first


def is_among(values: NDArray[Any], wanted: ArrayLike) -> NDArray[np.bool_]:
    """Which values are among those wanted, as `numpy.isin` tells it, and without `numpy.ma`.

    Args:
        values: whole numbers, shape (n,).
        wanted: whole numbers, shape (m,), in any order.

    Returns:
        Shape (n,).

    Example:
        >>> is_among(np.array([3, 1, 4]), [4, 3]).tolist()
        [True, False, True]
    """
    ordered = np.sort(np.asarray(wanted, np.int64), kind="stable")
    if not len(ordered):
        return np.zeros(len(values), np.bool_)
    at = np.minimum(np.searchsorted(ordered, values), len(ordered) - 1)
    found: NDArray[np.bool_] = ordered[at] == values
    return found


def as_column(
    name: str, value: ArrayLike, dtype: DTypeLike, error: type[PgmoError]
) -> NDArray[Any]:
    """A read-only flat array of the type wanted; no number changes on the way.

    Args:
        name: of the column, for messages.
        value: anything array-like of shape (n,). A contiguous array of the type is not copied.
        dtype: the type wanted, of integers or booleans.
        error: what is raised.

    Raises:
        PgmoError: of the type `error`, when the value is not flat, holds something else than whole
            numbers, or one that the type does not have.

    Example:
        >>> from pgmo.errors import PlanError
        >>> as_column("offset", [0, 64], "int64", PlanError).tolist()
        [0, 64]
    """
    wanted = np.dtype(dtype)
    array = np.asarray(value)
    if array.ndim != 1:
        raise error(f"column {name!r} has shape {array.shape}; give one number for each block")
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
