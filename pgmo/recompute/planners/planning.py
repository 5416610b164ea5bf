"""Search for the cheapest choice of a step within a budget."""

import math
import operator
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal, SupportsIndex, TypedDict, Unpack

from pgmo.errors import BudgetError, OptionError
from pgmo.recompute.planners import chen, kusumoto, min_cut
from pgmo.recompute.planners.evaluator import Choice, Evaluator
from pgmo.recompute.planners.floor import floor
from pgmo.recompute.planners.graph import Graph
from pgmo.recompute.planners.lower_sets import Dag, ancestor_sets
from pgmo.recompute.planners.offload.start import starts
from pgmo.recompute.planners.offload.transfers import Transfers
from pgmo.recompute.planners.reruns import RerunSearch
from pgmo.recompute.planners.schedule import simulate
from pgmo.units import format_bytes

EVALUATIONS = 200_000
"""Default number of choices that a search tries: one or two seconds for a thousand operations."""

_LARGE, _LEAST = 4000, 20_000
"""Number of operations above which a search tries fewer choices, in inverse proportion, and the
minimum number of choices."""

_SMALL, _MORE = 1000, 4
"""Number of operations below which a search within a budget tries more choices, and the factor:
choices of small steps are evaluated faster."""

_FEWER = 4
"""Divisor of evaluations for steps with a period: the search changes several periods at once."""

_FEWER_SETS = 2
"""Divisor of evaluations for a beam search, whose evaluations take longer."""

_LARGE_RERUNS, _LEAST_RERUNS = 250, 5_000
"""`_LARGE` and `_LEAST` of the search over reruns, whose evaluations visit the whole step."""

_MOST_FOR_LEAST = 1.0
"""Maximum overhead of a plan for "min", in forward passes."""

_MOST = 2**62
"""Maximum budget in bytes. Larger budgets are reduced to it."""

_FACTORS = (1.0, 1.1, 1.25, 1.5, 2.0, 3.0)
"""Budgets of the dynamic program, as multiples of its smallest budget."""

_TIME_UNITS = 1500
"""Time units of the dynamic program. Coarse units suffice: proposals are evaluated again."""

_UNITS_OF_PERIODS, _SETS_OF_PERIODS, _FACTORS_OF_PERIODS = 750, 500, (1.0, 1.25, 2.0)
"""Time units, lower sets and `_FACTORS` for steps with a period. The search moves whole periods and
needs no precise start."""


class SearchFields(TypedDict, total=False):
    """Keywords of `plan_choice`, which documents them."""

    evaluations: int | None
    time_limit: float
    seed: int
    rate: float | None


def plan_choice(
    graph: Graph,
    budget: SupportsIndex | Literal["min"],
    *,
    evaluations: int | None = None,
    time_limit: float = math.inf,
    seed: int = 0,
    candidates: Sequence[Choice] | None = None,
    rate: float | None = None,
) -> Choice:
    """Return the cheapest choice found whose peak is within a budget.

    All planners propose choices. A local search improves the cheapest choice that fits. If none
    fits, the search improves the choice with the lowest peak. A second search adds reruns anywhere
    in the step (`reruns.py`). If a small step has a budget in bytes and no `rate`, a beam search
    proposes another choice. The result need not be optimal: a larger budget may get a more
    expensive choice.

    Args:
        graph: the step.
        budget: bytes that the peak must not exceed, at any overhead; "min" for the smallest peak
            whose overhead is at most one forward pass.
        evaluations: number of choices that each search tries. Searches are repeated if no proposal
            fits. `evaluations` and `seed` determine the result. By default `EVALUATIONS`, adapted
            to the size of the step.
        time_limit: seconds after which a search ends with the best choice so far. There are several
            searches, and proposals take additional time. The result depends on the machine.
        seed: seed of the search, from 0.
        candidates: results of an earlier `propose` on the same graph, to save time.
        rate: bytes per second of a link to the host, if values may be offloaded. With a rate, costs
            of the graph must be seconds.

    Raises:
        BudgetError: if no choice fits a budget in bytes; the message has the smallest peak found.
        OptionError: if an option is invalid.
    """
    limit = _check(budget, evaluations, time_limit, seed)
    transfers = None if rate is None else Transfers.of(graph, rate)
    evaluator, wider = Evaluator(graph), RerunSearch(graph, transfers)
    default = evaluator.candidate((), "default")
    # Candidates of the caller may be of another graph, and evaluating them again is cheap.
    given = propose(graph, evaluator) if candidates is None else candidates
    known = [default, *(_evaluated_again(one, evaluator, wider) for one in given)]
    best = min(known, key=lambda one: rank(one, limit))
    end = time.monotonic() + time_limit

    def improve(start: Choice, aim: int | None, share: float, most: float = math.inf) -> Choice:
        left = share * (end - time.monotonic())
        if start.reruns is None:
            count = evaluations or _effort(graph, _LARGE, _LEAST)
            if evaluations is None and aim is not None:
                if evaluator.period:
                    count //= _FEWER
                elif len(graph.operations) < _SMALL:
                    count *= _MORE
            start = evaluator.search(start, aim, evaluations=count, time_limit=left, seed=seed)
            if limit is not None and aim is None and start.peak <= limit:
                return start
        if transfers is not None:
            start = min([start, *_offloading(start, wider)], key=lambda one: rank(one, aim))
        return wider.improve(
            start,
            aim,
            most=most,
            enough=limit or 0,
            evaluations=evaluations or _effort(graph, _LARGE_RERUNS, _LEAST_RERUNS),
            time_limit=left,
            seed=seed,
        )

    beam: Choice | None = None
    if limit is not None and limit < default.peak and transfers is None:
        beam = wider.beam(limit, (evaluations or EVALUATIONS) // _FEWER_SETS, time_limit)
    if limit is None or best.peak > limit:
        least = min(known, key=lambda one: rank(one, None))
        best = improve(least, None, 0.5, _MOST_FOR_LEAST)
        if limit is not None and best.peak > limit:
            best = improve(best, None, 0.5)
        if limit is None:
            limit = best.peak
        elif best.peak > limit and beam is None:
            raise UnreachableBudgetError(graph, limit, best, default.peak)
    if beam is not None and best.peak > limit:
        best, beam = beam, None
    if best.overhead > 0:
        best = improve(best, limit, 1)
    if beam is not None and rank(beam, limit) < rank(best, limit):
        best = beam
    return _without_unneeded(graph, best)


def plan_choices(
    graph: Graph,
    budgets: Sequence[SupportsIndex | Literal["min"]],
    *,
    candidates: Sequence[Choice] | None = None,
    **search: Unpack[SearchFields],
) -> tuple[Choice, ...]:
    """Return a choice for each of several budgets; a larger budget never has more overhead.

    Each budget is planned, and gets the cheapest choice that fits from the choices of all budgets.
    Other arguments and errors are as for `plan_choice`.
    """
    limits = [_check(budget, **search) for budget in budgets]
    known = propose(graph) if candidates is None else candidates
    found: list[Choice] = []
    for limit in sorted({-1 if one is None else one for one in limits}):
        try:
            choice = plan_choice(graph, "min" if limit < 0 else limit, candidates=known, **search)
        except BudgetError:
            if all(one.peak > limit for one in found):
                raise
        else:
            found.append(choice)
    front = _pareto_front(found)
    return tuple(
        front[0] if limit is None else [one for one in front if one.peak <= limit][-1]
        for limit in limits
    )


def curve(graph: Graph, *, points: int = 16, **search: Unpack[SearchFields]) -> tuple[Choice, ...]:
    """Return choices from the smallest peak to no recomputation, by ascending peak.

    `points` is the number of evenly spaced budgets, from 2. Other arguments and errors are as for
    `plan_choice`.
    """
    if points < 2:
        raise OptionError(f"a curve needs 2 points or more; points is {points}")
    known = propose(graph)
    (low,) = plan_choices(graph, ["min"], candidates=known, **search)
    known.append(low)  # So every budget can be met, also with a short time limit.
    most = known[0].peak
    budgets = [low.peak + (most - low.peak) * i // (points - 1) for i in range(1, points - 1)]
    planned = plan_choices(graph, budgets, candidates=known, **search)
    return tuple(_pareto_front([*(_without_unneeded(graph, one) for one in known), *planned]))


def propose(graph: Graph, evaluator: Evaluator | None = None) -> list[Choice]:
    """Return the proposals of all planners; the first drops nothing."""
    judge = evaluator or Evaluator(graph)
    dag = Dag.of(graph)
    choices: list[tuple[frozenset[int], str]] = [(frozenset(), "default")]
    choices += [(choice, "min-cut") for choice in min_cut.sweep(graph)]
    choices += [
        (segments.dropped(last=last), "chen")
        for segments in chen.sweep(dag)
        for last in (False, True)
    ]
    choices += _dynamic_programs(dag, bool(judge.period))
    return [judge.candidate(choice, planner) for choice, planner in choices]


def _dynamic_programs(dag: Dag, repeats: bool) -> Iterator[tuple[frozenset[int], str]]:
    sets = ancestor_sets(dag, _SETS_OF_PERIODS) if repeats else ancestor_sets(dag)
    units = _UNITS_OF_PERIODS if repeats else _TIME_UNITS
    program = kusumoto.DynamicProgram(dag, sets, time_units=units)
    least = program.least_budget(tolerance=1e-3)
    for factor in _FACTORS_OF_PERIODS if repeats else _FACTORS:
        sequences = program.solve(round(factor * least))
        for sequence, strategy in zip(sequences, ("time", "memory"), strict=True):
            for last in (False, True):
                yield sequence.dropped(last=last), f"kusumoto-{strategy}"


def _effort(graph: Graph, large: int, least: int) -> int:
    """Return the default number of evaluations. A count makes plans reproducible, unlike a time."""
    return max(least, min(EVALUATIONS, EVALUATIONS * large // max(1, len(graph.operations))))


def _offloading(base: Choice, wider: RerunSearch) -> Iterator[Choice]:
    assert wider.transfers is not None
    for reruns, away in starts(wider.graph, wider.transfers, base):
        again = frozenset(one for _, one in reruns) - away
        peak, overhead = wider.evaluate(reruns, away)
        yield Choice(again, peak, overhead, "offload", reruns, away, wider.transfers)


def _evaluated_again(one: Choice, evaluator: Evaluator, wider: RerunSearch) -> Choice:
    if one.reruns is None:
        return evaluator.candidate(one.recomputed, one.planner)
    peak, overhead = wider.evaluate(one.reruns, one.offloaded)
    return replace(one, peak=peak, overhead=overhead)


def _without_unneeded(graph: Graph, choice: Choice) -> Choice:
    """Return a choice that drops only the operations that its schedule runs again."""
    if choice.reruns is not None:
        return choice
    return replace(choice, recomputed=simulate(graph, choice.recomputed).recomputed)


def _pareto_front(choices: Sequence[Choice]) -> list[Choice]:
    """Return the choices that no other choice beats in peak and overhead, by ascending peak."""
    best: list[Choice] = []
    for choice in sorted(choices, key=lambda one: (one.peak, one.overhead)):
        if not best or choice.overhead < best[-1].overhead:
            best.append(choice)
    return best


def rank(one: Choice, budget: int | None) -> tuple[float, float, float]:
    """Return a sort key: choices within the budget by overhead, then other choices by peak."""
    if budget is not None and one.peak <= budget:
        return (0, one.overhead, one.peak)
    return (1, one.peak, one.overhead)


class UnreachableBudgetError(BudgetError):
    """Error for a budget for which no plan was found."""

    def __init__(self, graph: Graph, budget: int, least: Choice, default: int) -> None:
        self._given = graph, budget, least
        super().__init__(
            f"no recomputation was found that keeps the step within {format_bytes(budget)}: the "
            f"smallest peak found is {format_bytes(least.peak)}, with an overhead of "
            f"{least.overhead:.0%} of the forward pass; the original model's peak is "
            f"{format_bytes(default)}. Allow {least.peak} bytes or more, or use a smaller "
            f"batch. {floor(least.on(graph))}"
        )

    def __reduce__(self) -> tuple[type[BudgetError], tuple[object, ...]]:
        return BudgetError, self.args  # The graph is not pickled.

    def of_model(self, default: int) -> "UnreachableBudgetError":
        """Return the same error with `default` as the original model's peak, in bytes."""
        return UnreachableBudgetError(*self._given, default)


def _check(
    budget: SupportsIndex | str,
    evaluations: int | None = None,
    time_limit: float = math.inf,
    seed: int = 0,
    rate: float | None = None,  # `parse_link` checks it.
) -> int | None:
    """Return the budget in bytes, or None for "min"; raise OptionError for an invalid option."""
    if evaluations is not None and evaluations < 1:
        raise OptionError(f"evaluations is {evaluations}; give 1 or more")
    if not time_limit > 0:
        raise OptionError(f"the time limit is {time_limit} seconds; give more than 0")
    if not 0 <= seed < 2**64:
        raise OptionError(f"the seed is {seed}; give a number from 0 of at most 64 bits")
    if isinstance(budget, str):
        if budget == "min":
            return None
    elif not isinstance(budget, bool) and hasattr(budget, "__index__"):
        limit = operator.index(budget)  # Also NumPy's integers.
        if limit >= 0:
            return min(limit, _MOST)
    raise OptionError(f'the budget is {budget!r}; give a number of bytes, or "min"')
