"""Planner: runs the packers, then solvers that improve the result, and keeps the best packing.

portfolio          --at the lower bound-->  done
  | packers, milliseconds
  v
improve            --at the lower bound, or proved smallest, or out of time-->  done
  search, branch and bound, CP-SAT: the solvers and their times depend on `effort`,
  the number of blocks and the excess over the bound (`pgmo/packing/solving/stages.py`)
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Unpack, overload

import numpy as np
from numpy.typing import NDArray

from pgmo.columns import distinct
from pgmo.errors import OptionError
from pgmo.packing.lower_bound import max_load
from pgmo.packing.plan import UNPLANNED, Plan
from pgmo.packing.planning_options import SOLVERS, PlanningFields, PlanningOptions
from pgmo.packing.problem import Problem
from pgmo.packing.solving.best_known import BestKnown, Observer
from pgmo.packing.solving.portfolio import Portfolio
from pgmo.packing.solving.result import Packing
from pgmo.profiler.profile import Profile

__all__ = ["SOLVERS", "plan"]

_QUICK_SECONDS = 60.0
"""Minimum time limit in seconds of the packers that choose spilled blocks. Without a packing in
this time, blocks would be stacked, and nearly all of them spilled."""


@overload
def plan(
    what: Problem, *, observer: Observer | None = None, **options: Unpack[PlanningFields]
) -> Packing: ...
@overload
def plan(
    what: Profile,
    *,
    opening: Profile | None = None,
    observer: Observer | None = None,
    **options: Unpack[PlanningFields],
) -> Plan: ...
def plan(
    what: Profile | Problem,
    *,
    opening: Profile | None = None,
    observer: Observer | None = None,
    **options: Unpack[PlanningFields],
) -> Plan | Packing:
    """Compute offsets for blocks, in the smallest arena found within the time limit.

    The packers always find a plan, and solvers may improve it. Planning ends early if the arena is
    proved to be the smallest, usually because it equals the lower bound. Ctrl-C ends planning with
    the best packing so far (see `interrupted`).

    In the plan of a profile, persistent and shared blocks have no slot. Streams use disjoint ranges
    of the arena, because ticks do not order the blocks of different streams in time.

    Args:
        what: a profile, or a problem.
        opening: profile of the program's first iteration (`session.opening`), to plan this
            iteration, too. A session that loads the plan also serves the first iteration.
        solver: "auto" chooses solvers by `pgmo.packing.solving.stages`. The name of a packer
            (`pgmo.packing.solving.packer.PACKERS`) runs only that packer. "search",
            "branch-and-bound" and "cp-sat" (needs OR-Tools, `pip install ortools`) improve the
            packers' result until a proof or the time limit.
        time_limit: seconds since the call. The opening has this limit again, and a plan with
            spilled blocks may take it twice. If no packer finishes in time, the remaining blocks
            are stacked above the others, which wastes memory but is valid.
        effort: share of the time limit that "auto" uses. "fast": only packers run. "best": solvers
            then run for the whole time, unless optimality is proved earlier. "balanced": like
            "best", but for a fifth of the time if little can be gained.
        threads: number of threads for solvers; by default one for each core of this process.
        seed: seed of random choices. The same seed and number of threads give the same offsets,
            unless the time limit ends a solver, or CP-SAT runs with several threads.
        alignment: alignment of offsets in bytes; by default `Profile.alignment`. A problem has its
            own alignment.
        budget: device memory for all blocks of a profile, with or without a slot, such as "12 GiB"
            or a number of bytes. If the arena does not fit, blocks with the longest lifetimes are
            spilled: their slots come last, in unified memory on the host (`pgmo.packing.spill`).
        observer: called with an `Incumbent` for each better packing and each higher bound.

    Returns:
        A `Plan` for a profile, a `Packing` for a problem. Both have `arena`, `max_load`, `gap`, the
        proved `bound`, `optimal` and the `trace` of incumbents.

    Raises:
        OptionError: when an option is invalid, or CP-SAT is missing or cannot count the problem.
        ProblemError: when the alignment is not an integer from 1 to 2**40.
        BudgetError: when blocks without a slot exceed the budget; the message has the minimum.
        KeyboardInterrupt: when Ctrl-C is pressed before there is a result.

    Example:
        >>> profile = Profile.from_columns(
        ...     size=[64, 32, 64], start=[0, 1, 2], end=[2, 3, 3], ticks=3
        ... )
        >>> plan(profile).offset.tolist()
        [0, 64, 0]
        >>> plan(Problem([64, 32, 64], [0, 1, 2], [2, 3, 3])).arena
        96

    Source:
        Sekiyama et al. 2018 (arXiv 1804.10001) for the setting and the first packer.
    """
    unknown = options.keys() - PlanningFields.__annotations__.keys()
    if unknown:
        raise OptionError(
            f"there is no option {sorted(unknown)[0]!r}; pgmo.plan() has "
            f"{', '.join(PlanningFields.__annotations__)}, opening, observer"
        )
    if isinstance(what, Problem):
        if opening is not None:
            raise OptionError("opening= is only for a Profile; leave it out for a Problem")
        return plan_problem(what, PlanningOptions(**options), observer)
    if not isinstance(what, Profile):
        raise OptionError(f"{what!r} is neither a Profile nor a Problem; pass one of the two")
    if opening is not None and not isinstance(opening, Profile):
        raise OptionError(f"opening={opening!r} is not a Profile; pass a Profile")
    chosen = PlanningOptions(**options)
    made = plan_profile(what, chosen, observer)
    if opening is None:
        return made
    return replace(made, opening=plan_profile(opening, for_opening(chosen, opening)))


def for_opening(options: PlanningOptions, profile: Profile) -> PlanningOptions:
    """Return options for the first iteration; its blocks without a slot are added to the budget.

    Such blocks, for example optimizer state, stay alive in later iterations. They do not count
    against the budget of later iterations, so they do not count in the first iteration.
    """
    budget = options.budget_bytes
    if budget is None:
        return options
    from pgmo.packing.spill import least_budget

    alignment = profile.alignment if options.alignment is None else options.alignment
    return replace(options, budget=budget + least_budget(profile, alignment))


def plan_problem(
    problem: Problem, options: PlanningOptions, observer: Observer | None = None
) -> Packing:
    """Pack a problem; see `plan`. Raises OptionError for a budget or another alignment."""
    begin = time.perf_counter()
    if options.alignment not in (None, problem.alignment):
        raise OptionError(
            f"alignment={options.alignment} differs from the problem's, {problem.alignment}; give "
            "the alignment to Problem() instead"
        )
    if options.budget is not None:
        raise OptionError("budget= is only for a Profile; leave it out for a Problem")
    (best,), trace, interrupted = Portfolio(options).solve([problem], begin, observer)
    assert best.offset is not None
    return Packing(
        problem=problem,
        offset=best.offset,
        arena=best.arena,
        max_load=best.max_load,
        bound=best.bound,
        solver=best.solver,
        seconds=best.seconds,
        trace=trace,
        interrupted=interrupted,
    )


def plan_profile(
    profile: Profile, options: PlanningOptions, observer: Observer | None = None
) -> Plan:
    """Plan a profile, within the budget if there is one; see `plan`.

    Raises:
        OptionError, ProblemError, BudgetError: as `plan`.
    """
    begin = time.perf_counter()
    portfolio = Portfolio(options)
    alignment = profile.alignment if options.alignment is None else options.alignment
    if options.budget_bytes is None:
        large = options.sparse_from
        return _plan_profile(profile, alignment, portfolio, begin, observer, large=large)
    made = _within_budget(profile, options, options.budget_bytes, alignment, observer)
    return replace(made, seconds=time.perf_counter() - begin)


def _within_budget(
    profile: Profile,
    options: PlanningOptions,
    budget: int,
    alignment: int,
    observer: Observer | None,
) -> Plan:
    """Plan a profile, with spilled blocks if its load or its arena exceeds the budget.

    Each packing has the whole time limit. A packing without time would stack the blocks, and exceed
    the budget.
    """
    from pgmo.packing.spill import fit, room_for_slots

    portfolio = Portfolio(options)
    quick = Portfolio(replace(options.quick(), time_limit=max(options.time_limit, _QUICK_SECONDS)))

    def pack(by: Portfolio, spilled: NDArray[np.bool_] | None = None) -> Plan:
        large = options.sparse_from if spilled is None else 0
        return _plan_profile(
            profile, alignment, by, time.perf_counter(), observer, spilled, large=large
        )

    def needed(parts: Sequence[Problem]) -> int:
        bests, _, interrupted = quick.solve(parts, time.perf_counter())
        if interrupted:
            raise KeyboardInterrupt
        return sum(best.arena for best in bests)

    room = room_for_slots(profile, budget, alignment)
    if profile.max_load(alignment) <= room:
        whole = pack(portfolio)
        if whole.arena <= room:
            return whole
    problem, rows = Problem.from_profile(profile, alignment)
    spilled = fit(problem, rows, profile.stream[rows], room, needed)
    parted = pack(portfolio, spilled)
    return parted if parted.resident <= room else pack(quick, spilled)


def _plan_profile(
    profile: Profile,
    alignment: int,
    portfolio: Portfolio,
    begin: float,
    observer: Observer | None,
    spilled: NDArray[np.bool_] | None = None,
    large: int = 0,
) -> Plan:
    """Pack each stream separately, and a stream's spilled entries apart from its other entries.

    With `large`, blocks of at least `large` bytes are packed above smaller blocks of their stream.
    """
    problem, rows = Problem.from_profile(profile, alignment)
    if spilled is None:
        spilled = np.zeros(len(problem), bool)
    above = profile.size[rows] >= (large or np.inf)
    parts = _parts(profile.stream[rows], spilled, above)
    bests, trace, interrupted = portfolio.solve([problem.part(p) for p in parts], begin, observer)
    place = np.zeros(len(problem), np.int64)
    arena = resident = 0
    for part, best in zip(parts, bests, strict=True):
        assert best.offset is not None
        place[part] = best.offset + arena
        arena += best.arena
        if not spilled[part].any():
            resident = arena
    offset = np.full(len(profile), UNPLANNED, np.int64)
    alternate = offset.copy()
    # Rows are ascending, so the first entry of a row is its slot, and a second entry its alternate.
    second = np.zeros(len(rows), bool)
    second[1:] = rows[1:] == rows[:-1]
    offset[rows[~second]] = place[~second]
    alternate[rows[second]] = place[second]
    load = profile.max_load(alignment)
    bound = load if spilled.any() else _bound(problem, parts, bests, profile.stream[rows])
    return Plan.of(
        profile,
        offset=offset,
        alternate=alternate,
        arena=arena,
        max_load=load,
        optimal=arena == bound,
        solver="+".join(dict.fromkeys(best.solver for best in bests)),
        alignment=alignment,
        seconds=time.perf_counter() - begin,
        bound=bound,
        trace=trace,
        interrupted=interrupted,
        resident=resident,
    )


def _bound(
    problem: Problem,
    parts: list[NDArray[np.intp]],
    bests: Sequence[BestKnown],
    stream: NDArray[np.uint64],
) -> int:
    """Return a lower bound in bytes on plans that keep streams separate.

    A stream that was packed in two parts contributes its max load. Packed as a whole, the stream
    might need less than the sum of its parts' bounds.
    """
    streams = [stream[part[0]] if len(part) else None for part in parts]
    bound = 0
    for key in dict.fromkeys(streams):
        of_key = [at for at, one in enumerate(streams) if one == key]
        if len(of_key) == 1:
            bound += bests[of_key[0]].bound
        else:
            bound += max_load(problem.part(np.concatenate([parts[at] for at in of_key])))
    return bound


def _parts(
    stream: NDArray[np.uint64], spilled: NDArray[np.bool_], above: NDArray[np.bool_]
) -> list[NDArray[np.intp]]:
    """Return groups of entries that are packed together, in the order of their arena ranges."""
    parts = [
        np.flatnonzero((stream == key) & (spilled == where) & (above == high))
        for where in (False, True)
        for key in distinct(stream)
        for high in (False, True)
    ]
    return [part for part in parts if len(part)] or [np.arange(0)]
