from hypothesis import given
from hypothesis import strategies as st

from pgmo.demo.lengths import LONGEST_AT, varying_lengths


@given(st.integers(1, 50), st.integers(1, 60), st.integers(0, 200), st.integers())
def test_lengths_stay_in_range_and_the_longest_comes_once_in_its_place(low, more, count, seed):
    high = low + more
    lengths = varying_lengths(low, high, count, seed)
    assert len(lengths) == count
    assert all(low <= length <= high for length in lengths)
    if count:
        assert [i for i, n in enumerate(lengths) if n == high] == [min(LONGEST_AT, count - 1)]


@given(st.integers(1, 50), st.integers(20, 60), st.integers())
def test_lengths_differ_as_long_as_there_are_enough(low, more, seed):
    lengths = varying_lengths(low, low + more, 20, seed)
    assert len(set(lengths)) == 20


def test_the_seed_decides():
    assert varying_lengths(1, 90, 30, 5) == varying_lengths(1, 90, 30, 5)
    assert varying_lengths(1, 90, 30, 5) != varying_lengths(1, 90, 30, 6)
