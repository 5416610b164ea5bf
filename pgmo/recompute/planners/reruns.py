"""Search over reruns: operations may run again several times, anywhere in the step.

Every set of reruns can be executed, because a read returns the latest write. For small steps, a
beam search (csrc/recompute/beam.hpp) also proposes reruns. It is exact with an unlimited beam.
`bench/recompute_exact.py` compares the results with proven optima.

Source:
    Jain et al., "Checkmate: Breaking the Memory Wall with Optimal Tensor Rematerialization",
    MLSys 2020: the space of reruns, and the integer program that proves the optima.
"""

import math

import numpy as np
from numpy.typing import NDArray

from pgmo import _core
from pgmo.recompute.planners.evaluator import Choice, columns
from pgmo.recompute.planners.graph import Graph
from pgmo.recompute.planners.offload.transfers import Transfers
from pgmo.recompute.planners.schedule import Reruns, check_reruns, simulate

_NARROWEST = 16
"""Minimum width of a beam, in sets of needed values. Narrower beams find too little to be tried."""

_WIDEST = 1 << 17
"""Maximum width of a beam, in sets of needed values. A set takes a few hundred bytes of memory."""


class RerunSearch:
    """Graph as flat columns, on which reruns are evaluated and searched."""

    def __init__(self, graph: Graph, transfers: Transfers | None = None) -> None:
        self.graph, self.transfers = graph, transfers
        self._forward_cost = graph.forward_cost or 1.0
        self._replay = _core.Replay(graph.forward, *columns(graph))
        homes = np.array([one.home for one in graph.operations], np.int32)
        self._in_parts = bool(homes.any())
        if self._in_parts:
            self._replay.set_homes(homes)
        if transfers is not None:
            self._replay.set_transfers(
                np.array(transfers.seconds, np.float64), np.array(transfers.until, np.int32)
            )
        forward = graph.operations[: graph.forward]
        self._movable = np.array([not one.pinned for one in forward], np.uint8)

    def evaluate(
        self, reruns: Reruns, offloaded: frozenset[int] = frozenset()
    ) -> tuple[int, float]:
        """Return the peak in bytes, and the overhead as a share of the forward pass.

        Reruns whose values nothing reads are left out. Raises GraphError for an impossible rerun.
        """
        check_reruns(self.graph, reruns, offloaded, self.transfers)
        peak, cost = self._replay.evaluate(list(reruns), _column(offloaded))
        return peak, cost / self._forward_cost

    def beam(self, budget: int, work: int, time_limit: float) -> Choice | None:
        """Search reruns within a budget by a beam search from the end of the step.

        `work` is the maximum number of sets of needed values to examine, which determines the
        width. Returns None if no choice is found in `time_limit` seconds, the beam would be too
        narrow, or the step has several graphs.
        """
        forward, count = self.graph.forward, len(self.graph.operations)
        looks = sum(min(moment, forward) for moment in range(count))
        width = min(_WIDEST, work // max(1, looks))
        if width < _NARROWEST or budget < 1 or self._in_parts:
            return None
        places = self._replay.beam(self._movable, budget, width, time_limit)
        if places is None:
            return None
        reruns = tuple(places)
        peak, overhead = self.evaluate(reruns)
        return Choice(frozenset(one for _, one in reruns), peak, overhead, "beam", reruns)

    def improve(
        self,
        start: Choice,
        budget: int | None,
        *,
        most: float = math.inf,
        enough: int = 0,
        evaluations: int,
        time_limit: float,
        seed: int,
    ) -> Choice:
        """Improve a choice by simulated annealing over reruns (csrc/recompute/reruns.hpp).

        Other arguments are as in `Evaluator.search`. `most` is the maximum overhead, as a share of
        the forward pass. A search for the smallest peak ends at a peak of `enough` bytes.
        """
        begin = start.reruns
        if begin is None:
            begin = simulate(self.graph, start.recomputed).reruns
        found = self._replay.search(
            self._movable,
            list(begin),
            _column(start.offloaded),
            -1 if budget is None else budget,
            enough,
            most * self._forward_cost,
            evaluations,
            time_limit,
            seed,
        )
        if found is None:
            return start
        reruns, offloaded, peak, cost = found
        again, away = tuple(reruns), frozenset(offloaded)
        chosen = frozenset(operation for _, operation in again) - away
        overhead = cost / self._forward_cost
        return Choice(chosen, peak, overhead, "reruns", again, away, self.transfers)


def _column(operations: frozenset[int]) -> NDArray[np.int32]:
    return np.array(sorted(operations), np.int32)
