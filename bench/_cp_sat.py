"""Packing with OR-Tools' CP-SAT, as a peer: offsets are variables, and rectangles must not overlap.

A block that wraps around the circle is two rectangles at one offset. Sizes are divided by what they
have in common and ticks are numbered, so that numbers stay small.
"""

import numpy as np
from numpy.typing import NDArray
from ortools.sat.python import cp_model

from pgmo.packing.problem import Problem


def solve(
    problem: Problem,
    start: NDArray[np.int64],
    bound: int,
    *,
    time_limit: float,
    threads: int,
    seed: int,
) -> NDArray[np.int64]:
    """Improve a packing that is above the bound (bytes) for some seconds; return offsets, (m,)."""
    unit = int(np.gcd.reduce(problem.aligned))
    sizes, hints = problem.aligned // unit, start // unit
    numbered = problem.numbered()
    ticks = numbered.period or int(numbered.upper.max())
    top = int((hints + sizes).max())
    model = cp_model.CpModel()
    peak = model.new_int_var(-(-bound // unit), top, "peak")
    model.add_hint(peak, top)
    places, times, spans = [], [], []
    rows = zip(sizes, hints, numbered.lower, numbered.upper, strict=True)
    for size, hint, begin, end in (map(int, row) for row in rows):
        place = model.new_int_var(0, top - size, "")
        model.add_hint(place, hint)
        model.add(peak >= place + size)
        places.append(place)
        for low, high in ((begin, min(end, ticks)), (0, end - ticks)):
            if high > low:
                times.append(model.new_fixed_size_interval_var(low, high - low, ""))
                spans.append(model.new_fixed_size_interval_var(place, size, ""))
    model.add_no_overlap_2d(times, spans)
    model.minimize(peak)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = time_limit
    solver.parameters.num_workers = threads
    solver.parameters.random_seed = seed
    if solver.solve(model) not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return start
    return np.array([solver.value(place) for place in places], np.int64) * unit
