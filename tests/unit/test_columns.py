import numpy as np
import pytest

from pgmo.columns import as_column, is_among
from pgmo.errors import PlanError, ProblemError


def test_a_column_has_its_type_and_is_read_only():
    made = as_column("stream", [3, 5], np.uint64, PlanError)
    assert made.dtype == np.uint64
    assert made.tolist() == [3, 5]
    with pytest.raises(ValueError, match="read-only"):
        made[0] = 4


def test_the_array_given_is_neither_copied_nor_locked():
    given = np.arange(3)
    made = as_column("size", given, np.int64, PlanError)
    assert np.shares_memory(made, given)
    given[0] = 7
    assert made[0] == 7


def test_a_strided_array_becomes_contiguous():
    made = as_column("size", np.arange(6)[::2], np.int64, PlanError)
    assert made.flags.c_contiguous
    assert made.tolist() == [0, 2, 4]


def test_nothing_is_a_column_whatever_its_type():
    assert as_column("size", [], np.int64, PlanError).dtype == np.int64


@pytest.mark.parametrize(
    ("value", "dtype", "message"),
    [
        (5, "int64", r"column 'size' has shape \(\); give a flat list of numbers"),
        ([[5]], "int64", r"column 'size' has shape \(1, 1\)"),
        ([5.0], "int64", r"column 'size' holds float64; give whole numbers"),
        (["5"], "int64", r"column 'size' holds <U1"),
        (np.array([1, 2**63], np.uint64), "int64", "row 1: size 9223372036854775808 does not fit"),
        ([0, -1], "uint64", "row 1: size -1 does not fit in uint64"),
        ([2**31], "int32", "row 0: size 2147483648 does not fit in int32"),
        ([0, 1, 2], "bool", "row 2: size 2 does not fit in bool"),
    ],
)
@pytest.mark.parametrize("error", [PlanError, ProblemError])
def test_invalid_values_raise_the_owners_error(value, dtype, message, error):
    with pytest.raises(error, match=message):
        as_column("size", value, dtype, error)


def test_values_among_none_and_among_some():
    values = np.array([3, 5, 3])
    assert is_among(values, []).tolist() == [False] * 3
    assert is_among(values, [5, 4]).tolist() == [False, True, False]
