"""Random reruns of a graph's operations. This file needs neither PyTorch nor Hypothesis."""

import random

from pgmo.recompute.planners.graph import Graph
from pgmo.recompute.planners.offload.transfers import Transfers
from pgmo.recompute.planners.schedule import Reruns, is_at_home, is_made_again


def random_reruns(
    graph: Graph,
    dice: random.Random,
    share: float,
    away: frozenset[int] = frozenset(),
    transfers: Transfers | None = None,
) -> Reruns:
    """Return a random share of all possible reruns, and of fetches of the operations `away`."""

    def may(moment: int, index: int) -> bool:
        if transfers is not None and index in away:
            return moment >= transfers.until[index]
        return not graph.operations[index].pinned

    return tuple(
        (moment, index)
        for moment in range(len(graph.operations))
        for index in range(min(moment, graph.forward))
        if is_at_home(graph, moment, index) and may(moment, index) and dice.random() < share
    )


def read_reruns(graph: Graph, reruns: Reruns, away: frozenset[int] = frozenset()) -> Reruns:
    """Return the reruns whose values are read before they are written again."""
    wanted: set[int] = set()
    kept = []
    for moment in reversed(range(len(graph.operations))):
        again = [one for at, one in reversed(reruns) if at == moment]
        wanted = (wanted - {*graph.operations[moment].writes}) | {*graph.operations[moment].reads}
        for one in again:
            made = {it for it in graph.operations[one].writes if is_made_again(graph, it)}
            if made & wanted:
                kept.append((moment, one))
                wanted -= made
                wanted |= set() if one in away else {*graph.operations[one].reads}
    return tuple(sorted(kept))
