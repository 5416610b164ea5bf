"""Tests of the comparison of bits, and of the number of threads in all tests."""

import ctypes
import os
from pathlib import Path

import pytest

from tests.same_bits import ONE_THREAD, assert_same_bits, bits

torch = pytest.importorskip("torch")


def test_tests_run_on_one_thread_whose_number_nothing_changes():
    assert {name: os.environ[name] for name in ONE_THREAD} == ONE_THREAD
    assert torch.get_num_threads() == 1
    mapped = Path("/proc/self/maps").read_text().splitlines()
    openmp = {line.split()[-1] for line in mapped if "libgomp" in line}.pop()
    assert not ctypes.CDLL(openmp).omp_get_dynamic()


def test_a_single_bit_is_another_hash():
    one = torch.ones(3)
    other = torch.tensor([1.0, 1.0, 1.0 + 2**-23])
    assert bits([one]) == bits([torch.ones(3)])
    assert len({bits(value) for value in ([one], [other], [one, one], [None], [1.0], [])}) == 6
    assert bits([torch.tensor(1.0)]) != bits([one[:1]])


def test_a_difference_fails_where_plain_pytorch_repeats_itself():
    with pytest.raises(AssertionError):
        assert_same_bits("a", "b", lambda: "a")


def test_a_difference_skips_where_plain_pytorch_does_not_repeat_itself():
    with pytest.raises(pytest.skip.Exception, match="does not repeat itself here"):
        assert_same_bits("a", "b", lambda: "c")


def test_equal_results_are_not_repeated():
    assert_same_bits("a", "a", lambda: pytest.fail("repeated"))
