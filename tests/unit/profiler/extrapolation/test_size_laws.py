"""Laws of sizes: exact where there is one, from above where there is none."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgmo.profiler.extrapolation.size_laws import Polynomial, Upper, fit

BATCHES = [(2,), (4,), (8,)]
GRID = [(2, 16), (4, 16), (2, 32), (4, 32), (2, 64), (8, 64)]


def law_of(points, function):
    """The one law of sizes that a function gives."""
    ((law,),) = fit(points, np.array([[function(*point) for point in points]]))
    return law


@given(st.integers(0, 10**9), st.integers(1, 10**6))
def test_affine_sizes_are_predicted_exactly(constant, slope):
    law = law_of(BATCHES, lambda batch: constant + slope * batch)
    assert law.kind == "affine"
    assert law.checked
    assert law.at((64,)) == constant + slope * 64


def test_a_size_that_does_not_change_is_constant():
    law = law_of(BATCHES, lambda _: 2**40 + 1)
    assert (law.kind, law.at((10**6,))) == ("constant", 2**40 + 1)


def test_a_size_that_shrinks_is_followed_down():
    assert law_of(BATCHES, lambda batch: 1000 - 10 * batch).at((64,)) == 360


def test_a_size_that_shrinks_between_two_points_stays_the_larger_one():
    law = law_of(BATCHES[:2], lambda batch: 1000 - 10 * batch)
    assert (law.kind, law.at((64,))) == ("upper", 980)


@pytest.mark.parametrize(
    "function",
    [lambda x: 12 * x * x, lambda x: 100 + 8 * x * x, lambda x: 64 * x + 4 * x * x],
)
def test_squares_are_found_and_checked_by_the_third_point(function):
    law = law_of(BATCHES, function)
    assert law.kind == "quadratic"
    assert law.checked
    assert law.at((64,)) == function(64)


def test_a_whole_parabola_uses_up_three_points():
    law = law_of(BATCHES, lambda x: 7 + 5 * x + 3 * x * x)
    assert (law.kind, law.checked) == ("quadratic", False)
    assert law.at((64,)) == 7 + 5 * 64 + 3 * 64**2


def test_a_fourth_point_checks_a_parabola():
    law = law_of([*BATCHES, (16,)], lambda x: 7 + 5 * x + 3 * x * x)
    assert law.checked


def test_a_slope_may_be_a_fraction_and_sizes_are_rounded_up():
    law = law_of(BATCHES, lambda batch: batch // 2 + 3)
    assert [law.at((batch,)) for batch in (64, 65)] == [35, 36]


@pytest.mark.parametrize(
    "function",
    [
        lambda b, n: 4 * b * n,
        lambda b, n: 16 * b * n * n,
        lambda b, n: n * n + 8,
        lambda b, n: 512 * b,
        lambda b, n: 96 * b * n + 40 * b,
    ],
)
def test_products_of_batch_and_length(function):
    law = law_of(GRID, function)
    assert law.checked
    assert law.at((32, 160)) == function(32, 160)


def test_two_lengths_show_no_square():
    points = [(2, 16), (4, 16), (2, 32), (4, 32)]
    assert law_of(points, lambda b, n: b * n * n).kind == "upper"


def test_workspaces_are_estimated_from_above():
    # oneDNN's for an LSTM at batches 2, 4 and 8, and what it asked for at 64.
    for small, large in (
        ([544768, 1069056, 2125824], 16932864),
        ([148024, 287288, 561720], 4403768),
    ):
        ((law,),) = fit(BATCHES, np.array([small]))
        assert law.kind == "upper"
        assert [law.at(point) for point in BATCHES] == small
        assert large <= law.at((64,)) <= 1.01 * large


def test_an_estimate_is_that_of_the_next_larger_point_in_between():
    law = Upper((1,), ((2, 30), (4, 20), (8, 100)))
    assert [law.at((batch,)) for batch in (1, 3, 4, 5)] == [30, 30, 30, 100]


def test_an_estimate_never_falls_below_what_was_seen():
    ((law,),) = fit(BATCHES, np.array([[900, 100, 90]]))
    assert law.kind == "upper"
    assert law.at((64,)) >= 900


def test_a_workspace_that_grew_no_more_stays():
    ((law,),) = fit([(8,), (12,), (16,)], np.array([[134217728, 138412032, 138412032]]))
    assert (law.kind, law.at((38,))) == ("upper", 138412032)


@pytest.mark.parametrize(
    ("small", "large"),
    [
        # AVX-512
        ([91776, 91776, 104256], 104256),
        ([14784, 14784, 27264], 27264),
        ([239232, 239232, 251712], 251712),
        ([256, 45568, 45568], 45568),
        # AVX2
        ([11392, 11392, 23776], 23776),
        ([21120, 21120, 33568], 33568),
    ],
)
def test_a_workspace_that_goes_in_steps_stays(small, large):
    """OneDNN's for gradients of convolutions at batches 2, 4 and 8, in two threads; at 64."""
    ((law,),) = fit(BATCHES, np.array([small]), threads=True)
    assert law.kind == "upper"
    assert [law.at(point) for point in BATCHES] == small
    assert law.at((64,)) == large


@pytest.mark.parametrize(
    ("points", "small"),
    [
        (BATCHES, [320, 320, 12800]),  # becomes 76608 yet: no rule knows the next step
        ([(2,), (3,), (4,)], [91776, 320, 91776]),
        ([(6,), (8,), (12,)], [320, 12800, 76608]),
    ],
)
def test_a_step_is_no_slope(points, small):
    ((law,),) = fit(points, np.array([small]), threads=True)
    assert (law.kind, law.at((64,))) == ("upper", max(small))


def test_in_threads_or_not_what_grew_with_the_batch_grows_on():
    sizes = np.array([[148024, 287288, 561720]])
    ((law,),), ((same,),) = fit(BATCHES, sizes), fit(BATCHES, sizes, threads=True)
    assert law == same
    assert law.at((64,)) > 7 * 561720


def test_without_threads_a_step_may_be_the_beginning_of_a_slope():
    ((law,),) = fit(BATCHES, np.array([[91776, 91776, 104256]]))
    assert law.at((64,)) > 104256


def test_squares_of_two_lengths_are_no_steps():
    points = [(2, 16), (4, 16), (2, 32), (4, 32)]
    sizes = np.array([[b * n * n for b, n in points]])
    ((law,),) = fit(points, sizes, threads=True)
    assert law.at((8, 64)) > 2 * sizes.max()


def test_little_curvature_that_nothing_checks_is_taken_for_rounding():
    sizes = np.array([[66104, 115256, 217656]])  # lies on a parabola with bytes for factors, nearly
    assert fit(BATCHES, sizes)[0][0].kind == "upper"


@given(st.lists(st.integers(1, 2**40), min_size=3, max_size=3))
def test_every_law_gives_what_was_recorded_or_more(sizes):
    for law in fit(BATCHES, np.array([sizes]))[0]:
        fitted = [law.at(point) for point in BATCHES]
        assert all(a >= b for a, b in zip(fitted, sizes, strict=True))
        assert law.kind == "upper" or fitted == sizes


def test_polynomials_keep_to_whole_numbers_beyond_floats():
    law = Polynomial(((0,), (1,)), (Fraction(1), Fraction(2**55 + 1)), True)
    assert law.at((3,)) == 3 * 2**55 + 4
