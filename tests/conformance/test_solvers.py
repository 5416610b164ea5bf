"""Tests that every solver must pass, on lines and on circles, and tests of proofs."""

import os
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.packers.dissected import dissected
from pgmo.packing.lower_bound import max_load
from pgmo.packing.planner import plan
from pgmo.packing.problem import Problem
from pgmo.packing.solving import cp_sat
from pgmo.packing.solving.best_known import BestKnown
from pgmo.packing.solving.improver import IMPROVERS, improve
from pgmo.packing.validator import validate

from . import naive
from .problems import as_plan, problems, scaled, shuffled

EXACT = ("branch-and-bound", "cp-sat", "auto")
SECONDS = 60.0  # limit for problems that take milliseconds
BRIEF = 0.02


def parametrize(solvers):
    missing = pytest.mark.skipif(not cp_sat.is_installed(), reason="needs pgmo[exact]")
    return pytest.mark.parametrize(
        "solver", [pytest.param(one, marks=missing if one == "cp-sat" else ()) for one in solvers]
    )


each_solver = parametrize((*IMPROVERS, "auto"))
each_improver = parametrize(IMPROVERS)
each_exact = parametrize(EXACT)
# Few examples, because CP-SAT takes tens of milliseconds to start.
examples = settings(max_examples=int(os.environ.get("PGMO_EXAMPLES", "40")))


@dataclass(frozen=True, eq=False)
class Solution:
    offset: np.ndarray
    arena: int
    bound: int
    optimal: bool


def stacked(problem: Problem) -> np.ndarray:
    """Return the offsets of the worst packing without holes: no two blocks share a byte."""
    size = naive.aligned(problem)
    return np.cumsum(size) - size


def solve(problem: Problem, solver: str, seconds: float, threads: int = 2) -> Solution:
    """Solve from the worst packing, without packers; "auto" also uses packers."""
    if solver == "auto":
        made = plan(problem, time_limit=seconds, threads=threads)
        return Solution(made.offset, made.arena, made.bound, made.optimal)
    best = BestKnown(problem)
    best.offer(stacked(problem), "stacked")
    assert not improve(best, solver, time_limit=seconds, threads=threads, seed=0)
    return Solution(best.offset, best.arena, best.bound, best.optimal)


@each_solver
@examples
@given(problem=problems(), threads=st.integers(1, 3))
def test_is_valid_and_between_the_bounds(solver, problem, threads):
    found = solve(problem, solver, BRIEF, threads)
    assert found.offset.shape == (len(problem),)
    validate(as_plan(problem, found.offset))
    assert naive.arena(problem, found.offset) == found.arena
    assert max_load(problem) <= found.bound <= found.arena <= int(naive.aligned(problem).sum())
    assert found.optimal == (found.bound == found.arena)


@each_exact
@pytest.mark.parametrize("circular", [False, True])
@examples
@given(data=st.data())
def test_seven_blocks_are_solved_and_proved(solver, circular, data):
    problem = data.draw(problems(max_blocks=7, circular=circular))
    found = solve(problem, solver, SECONDS)
    validate(as_plan(problem, found.offset))
    assert found.optimal
    assert found.arena == naive.optimum(problem)


@each_improver
@examples
@given(problem=problems(max_blocks=7))
def test_no_bound_is_above_the_optimum_whenever_time_is_over(solver, problem):
    found = solve(problem, solver, 0.001)
    assert found.bound <= naive.optimum(problem) <= found.arena


@each_exact
@examples
@given(problem=problems(max_blocks=12), random=st.randoms(use_true_random=False))
def test_the_proved_arena_does_not_depend_on_the_numbering(solver, problem, random):
    one, other = (solve(p, solver, SECONDS) for p in (problem, shuffled(problem, random)))
    assert one.optimal
    assert other.optimal
    assert one.arena == other.arena


@each_exact
@examples
@given(problem=problems(max_blocks=12), scale=st.integers(2, 1000))
def test_the_proved_arena_scales(solver, problem, scale):
    one, other = (solve(p, solver, SECONDS) for p in (problem, scaled(problem, scale)))
    assert one.optimal
    assert other.optimal
    assert one.arena * scale == other.arena


@each_improver
@examples
@given(problem=problems(max_blocks=20))
def test_is_never_worse_than_what_it_is_given(solver, problem):
    first = plan(problem, effort="fast")
    best = BestKnown(problem)
    best.offer(first.offset, "packers")
    improve(best, solver, time_limit=BRIEF, threads=1, seed=1)
    assert best.arena <= first.arena
    validate(as_plan(problem, best.offset))


@each_improver
def test_an_optimal_packing_is_left_alone(solver):
    problem = Problem([64, 32], [0, 1], [2, 3])
    best = BestKnown(problem)
    best.offer(stacked(problem), "stacked")
    improve(best, solver, time_limit=SECONDS, threads=1, seed=0)
    assert [event.solver for event in best.trace] == ["stacked"]


@pytest.mark.parametrize("solver", ["search", "branch-and-bound"])
@pytest.mark.parametrize("threads", [1, 2])
def test_the_same_seed_and_threads_give_the_same_offsets(solver, threads):
    """The problems are solved before the time limit, which would end a search at random."""
    for circular in (False, True):
        problem = dissected(24, 6, circular=circular)
        one, other = (solve(problem, solver, SECONDS, threads) for _ in range(2))
        assert one.optimal
        assert one.offset.tolist() == other.offset.tolist()


@each_solver
def test_packs_nothing(solver):
    found = solve(Problem([], [], [], 5), solver, SECONDS)
    assert (found.offset.tolist(), found.arena, found.bound) == ([], 0, 0)


@each_exact
def test_a_ring_of_odd_length_is_proved_to_need_more_than_its_load(solver):
    problem = Problem([7] * 5, [0, 2, 4, 6, 8], [3, 5, 7, 9, 11], period=10, alignment=4)
    found = solve(problem, solver, SECONDS)
    assert (found.arena, found.bound) == (24, 24)
    assert max_load(problem) == 16


@each_exact
@pytest.mark.parametrize("circular", [False, True])
def test_dissected_arenas_are_put_together_again(solver, circular):
    """Heuristics do not find these packings of twenty blocks without a hole."""
    for seed in range(5):
        problem = dissected(20, seed, circular=circular)
        found = solve(problem, solver, SECONDS)
        validate(as_plan(problem.numbered(), found.offset))
        assert found.arena == found.bound == max_load(problem)
