"""Peak and overhead of many choices, in native code; equivalent to `schedule.simulate`."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pgmo import _core
from pgmo.recompute.planners.graph import Graph
from pgmo.recompute.planners.offload.transfers import Transfers
from pgmo.recompute.planners.periods import period
from pgmo.recompute.planners.schedule import Reruns, Schedule, check_choice, simulate


@dataclass(frozen=True)
class Choice:
    """Choice of operations to drop, with its peak and overhead.

    Args:
        recomputed: forward operations whose results are dropped and computed again.
        peak: bytes, as the schedule has them (`schedule.simulate`).
        overhead: cost of reruns, as a share of the forward pass.
        planner: name of its planner: `default` (nothing is dropped), `min-cut`, `chen`,
            `kusumoto-time`, `kusumoto-memory`, `beam`, or `search` or `reruns`, which improved on
            another one.
        reruns: which operations run again, and where. If None, each runs once, right before it is
            needed, and its results stay.
        offloaded: operations whose values are fetched from the host where they "run again".
        transfers: their transfers; None if nothing may be offloaded.
    """

    recomputed: frozenset[int]
    peak: int
    overhead: float
    planner: str
    reruns: Reruns | None = None
    offloaded: frozenset[int] = frozenset()
    transfers: Transfers | None = None

    def on(self, graph: Graph) -> Schedule:
        """Return the schedule of a graph under this choice, which was made for that graph."""
        return simulate(graph, self.recomputed, self.reruns, self.offloaded, self.transfers)


class Evaluator:
    """One graph as flat columns, on which choices are evaluated and searched."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.candidates: NDArray[np.int32] = np.fromiter(graph.candidates(), np.int32)
        self._allowed = frozenset(self.candidates.tolist())
        self.period = period(graph, self.candidates.tolist())
        self._whole = graph.forward_cost or 1.0
        self._step = _core.Step(graph.forward, *columns(graph))

    def evaluate(self, choice: Collection[int]) -> tuple[int, float]:
        """Return the peak in bytes and the overhead as a share of the forward pass."""
        peak, cost = self._step.evaluate(self._mask(choice))
        return peak, cost / self._whole

    def candidate(self, choice: Collection[int], planner: str) -> Choice:
        """Evaluate a choice, without its operations that are no candidates."""
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

        The result is never worse than `start`. A `budget` of None seeks the smallest peak. The
        search ends after so many evaluations, or after `time_limit` seconds; its result then
        depends on the machine.
        """
        mask, peak, cost, _, trace = self._step.search(
            self.candidates,
            self._mask(start.recomputed),
            -1 if budget is None else budget,
            evaluations,
            time_limit,
            seed,
            self.period,
        )
        if len(trace) < 2:  # Nothing better was found.
            return start
        chosen = frozenset(np.flatnonzero(mask).tolist())
        return Choice(chosen, peak, cost / self._whole, "search")

    def _mask(self, choice: Collection[int]) -> NDArray[np.uint8]:
        if not self._allowed.issuperset(choice):
            check_choice(self.graph, choice)
        mask = np.zeros(self.graph.forward, np.uint8)
        mask[list(choice)] = 1
        return mask


def columns(graph: Graph) -> tuple[NDArray[Any], ...]:
    """Convert a graph to the arrays that the native module takes."""
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
