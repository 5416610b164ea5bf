"""Native evaluation of choices, which agrees with `schedule.simulate`."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pgmo import _core
from pgmo.recompute.planners.graph import Graph
from pgmo.recompute.planners.offload.transfers import Transfers
from pgmo.recompute.planners.schedule import Reruns, Schedule, check_choice, simulate

_ALIKE = 0.75
"""Minimum share of candidates that recur after a period. The ends of a network do not recur."""

_TIMES = 4
"""Minimum number of periods in a step."""

_LEAST = 1000
"""Minimum operations of a step for a search of its period. Smaller steps are planned quickly."""


@dataclass(frozen=True)
class Choice:
    """Choice of operations to drop, with its peak and overhead.

    Args:
        recomputed: forward operations that run again.
        peak: peak of the schedule in bytes.
        overhead: cost of reruns and of waits for transfers, as a share of the forward pass.
        planner: name of the choice's planner: `default` (nothing is dropped), `min-cut`, `chen`,
            `kusumoto-time`, `kusumoto-memory`, `beam`, `offload`; `search` or `reruns` for a search
            that improved another choice; `another shape` for a reused choice; `together` for a part
            of a choice for several graphs.
        reruns: pairs (moment, operation): `operation` runs again right before operation `moment`.
            If None, each operation of `recomputed` runs again once, right before the backward pass
            needs its values.
        offloaded: operations whose reruns fetch the value from the host.
        transfers: transfers of the graph; None if nothing may be offloaded.
    """

    recomputed: frozenset[int]
    peak: int
    overhead: float
    planner: str
    reruns: Reruns | None = None
    offloaded: frozenset[int] = frozenset()
    transfers: Transfers | None = None

    @classmethod
    def of(cls, schedule: Schedule, planner: str) -> "Choice":
        """Return the choice of a schedule's reruns."""
        return cls(
            schedule.recomputed,
            schedule.peak,
            schedule.overhead,
            planner,
            schedule.reruns,
            schedule.offloaded,
            schedule.transfers,
        )

    def on(self, graph: Graph) -> Schedule:
        """Return the schedule of this choice on its graph."""
        return simulate(graph, self.recomputed, self.reruns, self.offloaded, self.transfers)


class Evaluator:
    """Graph as flat columns, on which sets of dropped operations are evaluated and searched."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.candidates: NDArray[np.int32] = np.fromiter(graph.candidates(), np.int32)
        self._allowed = frozenset(self.candidates.tolist())
        self.period = _period(graph, self.candidates.tolist())
        self._forward_cost = graph.forward_cost or 1.0
        self._step = _core.Step(graph.forward, *columns(graph))

    def evaluate(self, choice: Collection[int]) -> tuple[int, float]:
        """Return the peak in bytes, and the overhead as a share of the forward pass.

        Raises GraphError if an operation of `choice` is not a candidate.
        """
        peak, cost = self._step.evaluate(self._mask(choice))
        return peak, cost / self._forward_cost

    def candidate(self, choice: Collection[int], planner: str) -> Choice:
        """Return the choice that drops the candidates among the operations of `choice`."""
        within = self._allowed.intersection(choice)
        return Choice(within, *self.evaluate(within), planner)

    def search(
        self,
        start: Choice,
        budget: int | None,
        *,
        evaluations: int,
        time_limit: float,
        seed: int,
    ) -> Choice:
        """Improve a choice by simulated annealing (csrc/recompute/search.hpp).

        Args:
            start: a choice; the result is never worse.
            budget: bytes; None to minimize the peak.
            evaluations: maximum number of choices to try.
            time_limit: seconds after which the search ends.
            seed: seed of the search.
        """
        found = self._step.search(
            self.candidates,
            self._mask(start.recomputed),
            -1 if budget is None else budget,
            evaluations,
            time_limit,
            seed,
            self.period,
        )
        if found is None:
            return start
        mask, peak, cost = found
        chosen = frozenset(np.flatnonzero(mask).tolist())
        return Choice(chosen, peak, cost / self._forward_cost, "search")

    def _mask(self, choice: Collection[int]) -> NDArray[np.uint8]:
        if not self._allowed.issuperset(choice):
            check_choice(self.graph, choice)
        mask = np.zeros(self.graph.forward, np.uint8)
        mask[list(choice)] = 1
        return mask


def columns(graph: Graph) -> tuple[NDArray[Any], ...]:
    """Return a graph as the arrays that native code takes."""
    operations, values = graph.operations, graph.values
    return (
        *_lists([operation.reads for operation in operations]),
        *_lists([operation.writes for operation in operations]),
        np.array([operation.cost for operation in operations], np.float64),
        np.array([operation.workspace for operation in operations], np.int64),
        np.array([value.size for value in values], np.int64),
        np.array([value.producer for value in values], np.int32),
        np.array([value.result for value in values], np.uint8),
        np.array([value.pinned for value in values], np.uint8),
    )


def _lists(lists: Sequence[Sequence[int]]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    begin = np.zeros(len(lists) + 1, np.int32)
    begin[1:] = np.cumsum([len(one) for one in lists])
    return begin, np.array([item for one in lists for item in one], np.int32)


def _period(graph: Graph, operations: Sequence[int]) -> int:
    """Return the number of `operations` after which equal operations recur; 0 without a period.

    `operations` are the numbers of some operations of the graph, ascending. With many equal layers,
    each `norm, mul, gelu`, the period is 3.
    """
    if len(graph.operations) < _LEAST:
        return 0
    numbers: dict[object, int] = {}
    keys = np.array(
        [numbers.setdefault(_operation_key(graph, one), len(numbers)) for one in operations],
        np.int64,
    )
    for length in range(2, len(keys) // _TIMES + 1):
        if np.mean(keys[:-length] == keys[length:]) >= _ALIKE:
            return length
    return 0


def _operation_key(graph: Graph, index: int) -> object:
    operation = graph.operations[index]
    return (operation.name, operation.cost, *(graph.values[one].size for one in operation.writes))
