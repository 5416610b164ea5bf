"""Tests that every packer must pass, on lines and on circles."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgmo.errors import OptionError
from pgmo.packing.lower_bound import max_load
from pgmo.packing.problem import Problem
from pgmo.packing.solving.packer import PACKERS, pack
from pgmo.packing.validator import validate

from . import naive
from .problems import as_plan, problems, scaled, shuffled
from .traces import FAMILIES, scattered

each_packer = pytest.mark.parametrize("packer", PACKERS)


@each_packer
@given(problem=problems())
def test_is_valid_and_between_the_bounds(packer, problem):
    offset = pack(problem, packer)
    assert offset.shape == (len(problem),)
    validate(as_plan(problem, offset))
    arena = naive.arena(problem, offset)
    assert max_load(problem) <= arena <= int(naive.aligned(problem).sum())


@given(problem=problems())
def test_lower_bound_is_the_largest_load(problem):
    assert max_load(problem) == naive.max_load(problem)


@settings(max_examples=25)
@given(problem=problems(max_blocks=7))
def test_no_packer_beats_the_optimum_and_no_optimum_the_bound(problem):
    optimum = naive.optimum(problem)
    assert max_load(problem) <= optimum
    for packer in PACKERS:
        assert naive.arena(problem, pack(problem, packer)) >= optimum


@each_packer
@given(problem=problems(), random=st.randoms(use_true_random=False))
def test_arena_does_not_depend_on_the_numbering(packer, problem, random):
    other = shuffled(problem, random)
    one_arena, other_arena = (naive.arena(p, pack(p, packer)) for p in (problem, other))
    assert one_arena == other_arena


@each_packer
@given(problem=problems(), scale=st.integers(2, 1000))
def test_sizes_scale(packer, problem, scale):
    larger = scaled(problem, scale)
    assert pack(larger, packer).tolist() == (pack(problem, packer) * scale).tolist()


@each_packer
def test_packs_nothing(packer):
    assert pack(Problem([], [], [], 5), packer).tolist() == []


@each_packer
def test_blocks_of_the_whole_period_are_stacked(packer):
    problem = Problem([10, 20, 30], [0, 3, 5], [7, 10, 12], period=7)
    assert sorted(pack(problem, packer)) in ([0, 10, 30], [0, 30, 50], [0, 10, 40], [0, 20, 50])
    assert naive.arena(problem, pack(problem, packer)) == 60


@each_packer
def test_a_ring_of_odd_length_needs_more_than_its_load(packer):
    # Five blocks that overlap their neighbours have a load of 2, but an odd ring needs 3.
    problem = Problem([1] * 5, [0, 2, 4, 6, 8], [3, 5, 7, 9, 11], period=10)
    assert max_load(problem) == 2
    assert naive.arena(problem, pack(problem, packer)) == naive.optimum(problem) == 3


@given(problem=problems(circular=False, max_blocks=25).filter(len))
def test_best_fit_is_the_heuristic_of_the_paper(problem):
    assert pack(problem, "best-fit").tolist() == naive.skyline(problem, naive.by_lifetime)
    assert pack(problem, "best-fit-area").tolist() == naive.skyline(problem, naive.by_area)
    assert pack(problem, "best-fit-size").tolist() == naive.skyline(problem, naive.by_size)
    assert pack(problem, "best-fit-start").tolist() == naive.skyline(problem, naive.by_start)


@each_packer
@pytest.mark.parametrize("family", FAMILIES)
def test_packs_training_shaped_traces(packer, family):
    """Thousands of blocks fill several nodes and chunks of the packers' data structures."""
    problem, _ = Problem.from_profile(FAMILIES[family](4000, 3), 64)
    offset = pack(problem, packer)
    validate(as_plan(problem, offset))
    assert naive.arena(problem, offset) >= max_load(problem)


@each_packer
@pytest.mark.parametrize("cut_open", [False, True])
def test_gives_a_valid_answer_when_time_is_over(packer, cut_open):
    problem, _ = Problem.from_profile(scattered(12_000, 5), 64)
    if cut_open:
        upper = np.minimum(problem.upper, problem.period)
        problem = Problem(problem.size, problem.lower, upper, alignment=problem.alignment)
    offset = pack(problem, packer, time_limit=0)
    validate(as_plan(problem, offset))
    arena, whole = naive.arena(problem, offset), naive.arena(problem, pack(problem, packer))
    assert whole < arena, "it was not cut short"


def test_unknown_names_are_refused():
    with pytest.raises(OptionError, match="'worst-fit'; choose one of best-fit, "):
        pack(Problem([1], [0], [1]), "worst-fit")
