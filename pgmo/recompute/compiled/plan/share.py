"""Share of one graph in the plan of a whole step."""

from dataclasses import dataclass

from pgmo.recompute.planners.evaluator import Choice, Evaluator
from pgmo.recompute.planners.graph import Graph
from pgmo.recompute.planners.offload.transfers import Transfers
from pgmo.recompute.planners.schedule import Reruns, simulate


@dataclass(frozen=True)
class GraphShare:
    """A graph's share of a choice, in operations of its own graph.

    Args:
        recomputed: forward operations whose results are forgotten.
        reruns: what runs again or is fetched, and where; None where each runs again once.
        offloaded: operations whose values are fetched from the host.
        rate: bytes a second of the link to it; None where nothing may be offloaded.
    """

    recomputed: frozenset[int]
    reruns: Reruns | None = None
    offloaded: frozenset[int] = frozenset()
    rate: float | None = None

    def on(self, graph: Graph) -> Choice:
        """Return the choice for the graph."""
        if self.reruns is None:
            return Evaluator(graph).candidate(self.recomputed, "together")
        transfers, away, reruns = None, frozenset[int](), self.reruns
        if self.rate is not None:
            transfers = Transfers.of(graph, self.rate)
            away, reruns = transfers.fitting(self.offloaded, reruns)
        made = simulate(graph, (), reruns, away, transfers)
        peak, overhead = made.peak, made.overhead
        return Choice(made.recomputed, peak, overhead, "together", (), reruns, away, transfers)
