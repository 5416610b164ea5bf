"""Laws of sizes: exact where there is one, from above where there is none."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgmo.profiler.size_laws import Polynomial, Upper, fit

BATCHES = [(2,), (4,), (8,)]
GRID = [(2, 16), (4, 16), (2, 32), (4, 32), (2, 64), (8, 64)]


def law_of(points, function):
    """The one law of sizes that a function gives."""
    ((law,),) = fit(points, np.array([[function(*point) for point in points]]))
    return law


@given(st.integers(0, 10**9), st.integers(1, 10**6))
def test_affine_sizes_are_foretold_exactly(constant, slope):
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
