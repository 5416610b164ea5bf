"""From blocks to offsets: runs the packers, then the solvers that improve, and keeps the best.

portfolio          --at the lower bound-->  done
  | all packers, milliseconds
  v
improve            --at the lower bound, or proved, or out of time-->  done
  search, branch and bound, CP-SAT: which, and for how long, depends on `effort`,
  the number of blocks and the gap (`pgmo/packing/solving/stages.py`)
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
    """Computes an offset for every block, in an arena as small as can be found in the time.

    There is always an answer: the packers come first, and whatever follows only improves on them.
    It ends as soon as the arena is proved to be the smallest, most often because it has reached
    the lower bound. Ctrl-C ends it with the best packing so far (`interrupted` says so), unless
    there is none yet.

    In a profile's plan persistent and shared blocks have no place, and each stream gets a range of
    the arena of its own: blocks of different streams are not ordered in time, whatever their
    ticks say.

    Args:
        what: a profile, what an iteration allocates; or a bare problem.
        opening: the profile of the program's first iteration (`session.opening`), to be planned as
            well: a session that begins with the plan serves that iteration, too.
        solver: "auto" chooses, see `pgmo.packing.solving.stages`; the name of a packer
            (`pgmo.packing.solving.packer.PACKERS`) runs that one alone; "search",
            "branch-and-bound" or "cp-sat" (needs OR-Tools, `pip install ortools`) let that
            one improve on the packers for all of the time.
        time_limit: seconds, from the call. When they are over before the first packer is done, the
            blocks that are left are stacked above the others: a waste, but an answer.
        effort: how "auto" goes about it. "fast": the packers only. "balanced": a search after them,
            short where hardly anything is left to gain. "best": all of the time, if it takes that
            to prove that nothing is smaller.
        threads: that solvers may use; by default one for each core of this process.
        seed: of random choices. With the same seed and number of threads the same offsets come out,
            as far as solvers end before the time limit.
        alignment: of offsets, in bytes; by default that of the profile's device, see
            `Profile.alignment`. A problem has one already.
        budget: device memory for a profile's blocks, those without a slot included, as "12 GiB".
            Where the arena would need more, the blocks that lie idle for longest are spilled: their
            slots are behind all others, in unified memory that stays on the host
            (`pgmo.packing.spill`).
        observer: is called with an `Incumbent` at each better packing and each higher bound.

    Returns:
        For a profile a `Plan`, for a problem a `Packing`. Both know `arena`, `max_load`, `gap`, the
        `bound` that is proved, whether they are `optimal`, and the `trace` of incumbents.

    Raises:
        OptionError: when an option has a value that cannot be used, or OR-Tools is missing.
        ProblemError: when the alignment is not a positive whole number.
        BudgetError: when blocks that have no slot exceed the budget, with the least one.

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
            raise OptionError("opening= is for profiles: a bare problem has no first iteration")
        return plan_problem(what, PlanningOptions(**options), observer)
    if not isinstance(what, Profile):
        raise OptionError(f"{what!r} is neither a Profile nor a Problem; load or make one first")
    if opening is not None and not isinstance(opening, Profile):
        raise OptionError(f"opening={opening!r} is not a Profile; load it first")
    chosen = PlanningOptions(**options)
    made = plan_profile(what, chosen, observer)
    if opening is None:
        return made
    return replace(made, opening=plan_profile(opening, for_opening(chosen, opening)))


def for_opening(options: PlanningOptions, profile: Profile) -> PlanningOptions:
    """Return the options for the first iteration: what it leaves for good is added to the budget.

    Later iterations find that there, and it is not counted in them either.

    Example:
        >>> profile = Profile.from_columns(size=[64, 32], start=[0, 1], end=[1, -1], ticks=2)
        >>> for_opening(PlanningOptions(budget=100, alignment=1), profile).budget
        132
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
    """Packs a bare problem; see `plan`.

    Raises:
        OptionError: when an option is for profiles only.

    Example:
        >>> plan_problem(Problem([64], [0], [1]), PlanningOptions()).arena
        64
    """
    begin = time.perf_counter()
    if options.alignment not in (None, problem.alignment):
        raise OptionError(
            f"alignment={options.alignment} was given for a problem that has {problem.alignment}; "
            "make the problem with the alignment wanted"
        )
    if options.budget is not None:
        raise OptionError("budget= is for profiles: a bare problem has no other memory")
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
    """Plans a profile, within the budget if there is one; see `plan`.

    Raises:
        ProblemError: when the alignment is not a positive whole number.
        BudgetError: when blocks that have no slot exceed the budget, with the least one.

    Example:
        >>> profile = Profile.from_columns(size=[64], start=[0], end=[1], ticks=1)
        >>> plan_profile(profile, PlanningOptions(effort="fast")).arena
        64
    """
    begin = time.perf_counter()
    portfolio = Portfolio(options)
    alignment = profile.alignment if options.alignment is None else options.alignment
    large = options.apart_from
    whole = _plan_profile(profile, alignment, portfolio, begin, observer, large=large)
    if options.budget_bytes is None:
        return whole
    from pgmo.packing.spill import fit, room_for_slots

    room = room_for_slots(profile, options.budget_bytes, alignment)
    if whole.arena <= room:
        return whole
    problem, rows = Problem.from_profile(profile, alignment)
    quick = Portfolio(options.quick())

    def needed(parts: Sequence[Problem]) -> int:
        bests, _, interrupted = quick.solve(parts, time.perf_counter())
        if interrupted:
            raise KeyboardInterrupt
        return sum(best.arena for best in bests)

    spilled = fit(problem, rows, profile.stream[rows], room, needed)
    parted = _plan_profile(profile, alignment, portfolio, begin, observer, spilled)
    if parted.resident <= room:
        return parted
    return _plan_profile(profile, alignment, quick, begin, observer, spilled)


def _plan_profile(
    profile: Profile,
    alignment: int,
    portfolio: Portfolio,
    begin: float,
    observer: Observer | None,
    spilled: NDArray[np.bool_] | None = None,
    large: int = 0,
) -> Plan:
    """Plans each stream apart; what is spilled, of the problem's entries, apart from the rest.

    So are blocks of at least `large` bytes, above the others of their stream; 0: none.
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
    # Rows are ascending: the first entry of a row is its slot, a second one its alternate.
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
    """Bytes that no plan can be below that keeps streams apart.

    Of a stream that is packed in two parts only the load is proved: together, or with other blocks
    in them, the two might need less.
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
    """Entries that are packed together, in the order of their ranges of the arena."""
    parts = [
        np.flatnonzero((stream == key) & (spilled == where) & (above == high))
        for where in (False, True)
        for key in distinct(stream)
        for high in (False, True)
    ]
    return [part for part in parts if len(part)] or [np.arange(0)]
