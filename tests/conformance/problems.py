"""Random problems for the conformance tests, and their packings as plans."""

import numpy as np
from hypothesis import strategies as st

from pgmo.packing.lower_bound import max_load
from pgmo.packing.plan import UNPLANNED, Plan
from pgmo.packing.problem import Problem
from pgmo.profiler.profile import ProfileMeta

from . import naive


@st.composite
def problems(draw, max_blocks=40, circular=None):
    if circular is None:
        circular = draw(st.booleans())
    period = draw(st.integers(1, 30))
    rows = draw(
        st.lists(
            st.tuples(
                st.one_of(st.integers(1, 12), st.integers(1, 10**12)),
                st.integers(0, period - 1),
                st.integers(1, period),
            ),
            max_size=max_blocks,
        )
    )
    size, lower, life = np.array(rows, np.int64).reshape(-1, 3).T
    upper = lower + life
    if not circular:
        upper = np.maximum(lower + 1, np.minimum(upper, period))
    alignment = draw(st.sampled_from((1, 4, 64, 96)))
    return Problem(size, lower, upper, period if circular else 0, alignment)


def shuffled(problem: Problem, random) -> Problem:
    """Return the problem with its blocks in another order."""
    order = list(range(len(problem)))
    random.shuffle(order)
    return problem.part(np.array(order, np.int64))


def scaled(problem: Problem, scale: int) -> Problem:
    """Return the problem with all sizes and the alignment multiplied by `scale`."""
    size, alignment = problem.size * scale, problem.alignment * scale
    return Problem(size, problem.lower, problem.upper, problem.period, alignment)


def as_plan(problem: Problem, offset: np.ndarray) -> Plan:
    ticks = problem.period or int(problem.upper.max(initial=0))
    return Plan(
        size=problem.size,
        start=problem.lower,
        end=problem.upper,
        stream=np.zeros(len(problem), np.uint64),
        varying=np.zeros(len(problem), bool),
        shared=np.zeros(len(problem), bool),
        offset=offset,
        alternate=np.full(len(problem), UNPLANNED),
        arena=naive.arena(problem, offset),
        max_load=max_load(problem),
        optimal=False,
        solver="",
        alignment=problem.alignment,
        ticks=ticks,
        circular=problem.period > 0,
        fingerprint="",
        seconds=0.0,
        meta=ProfileMeta(),
    )
