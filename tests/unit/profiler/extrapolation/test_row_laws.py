"""Laws of requests, also of those that some of the profiles lack."""

import numpy as np
import pytest

from pgmo.profiler.extrapolation.row_laws import laws_of, tell_apart

BATCHES = [(2,), (4,), (8,)]


def at_64(*sizes):
    """What the laws of each row of sizes say of batch 64; their kinds, too."""
    laws, row = laws_of(BATCHES, np.array(sizes))
    return [
        (max(law.at((64,)) for law in laws[place]), laws[place][0].kind, laws[place][0].checked)
        for place in row
    ]


def test_requests_that_all_have_are_fitted():
    assert at_64([20, 40, 80], [7, 7, 7]) == [(640, "affine", True), (7, "constant", True)]


def test_two_sizes_are_enough_for_a_law_that_nothing_checks():
    told = at_64([0, 24, 40], [0, 96, 96])
    assert told == [(264, "affine", False), (96, "constant", True)]


def test_one_size_is_that_of_a_tensor():
    (first, *_), (second, *_), _, _ = at_64([0, 0, 80], [0, 0, 7], [20, 40, 80], [7, 7, 7])
    assert (first, second) == (640, 7)


def test_of_several_such_tensors_the_larger_one_counts():
    assert at_64([0, 0, 80], [20, 40, 80], [80, 80, 80])[0][0] == 640


def test_a_size_of_its_own_is_taken_for_one_that_grows():
    size, kind, checked = at_64([0, 0, 148], [20, 40, 80])[0]
    assert 8 * 148 <= size <= 1.01 * 8 * 148
    assert (kind, checked) == ("constant", False)


def test_unless_it_is_little():
    assert at_64([0, 0, 148], [2000, 4000, 10000])[0] == (148, "constant", False)


def test_and_there_are_threads():
    sizes = np.array([[0, 0, 148], [2000, 4000, 10000]])
    laws, row = laws_of(BATCHES, sizes, threads=False)
    assert 8 * 148 <= max(law.at((64,)) for law in laws[row[0]]) <= 1.01 * 8 * 148


def test_threads_have_workspaces_that_go_in_steps():
    sizes = np.array([[91776, 91776, 104256]])
    told = [
        laws_of(BATCHES, sizes, threads=threads)[0][0][0].at((64,)) for threads in (True, False)
    ]
    assert told[0] == 104256 < told[1]


def test_points_that_leave_out_a_parameter_do_not_make_a_law():
    grid = [(2, 16), (4, 16), (4, 32)]
    laws, row = laws_of(grid, np.array([[0, 256, 512], [128, 256, 512]]))
    assert [laws[place][0].at((8, 32)) for place in row] == [1024, 1024]


@pytest.mark.parametrize(
    ("points", "told"),
    [([], False), ([(2,)], False), ([(2,), (4,)], True), ([(2, 4), (4, 8), (8, 16)], False)],
)
def test_points_tell_parameters_apart_or_do_not(points, told):
    assert tell_apart(points) == told
