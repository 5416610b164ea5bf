"""First choices of a search with offloading: kept values are offloaded, the largest first."""

from collections.abc import Iterator

from pgmo.recompute.planners.evaluator import Choice
from pgmo.recompute.planners.graph import Graph
from pgmo.recompute.planners.offload.transfers import Transfers, offloaded_value
from pgmo.recompute.planners.schedule import Reruns, Schedule

_SHARES = (0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1.0)
"""Offloaded shares of the kept bytes that the backward pass reads."""

_AHEAD = (1.2, 0.5, 0.0)
"""Times between the fetch and the first use of a value, in multiples of its transfer time."""


def starts(
    graph: Graph, transfers: Transfers, choice: Choice
) -> Iterator[tuple[Reruns, frozenset[int]]]:
    """Yield (reruns, offloaded operations), with an increasing share of kept values offloaded."""
    schedule = choice.on(graph)
    readers = _first_readers(graph, transfers, schedule)
    sizes = {one: _size(graph, one) for one in readers}
    order = sorted(readers, key=lambda one: (-sizes[one], one))
    total = sum(sizes.values())
    counts = []
    for share in _SHARES:
        taken = count = 0
        while count < len(order) and taken < share * total:
            taken += sizes[order[count]]
            count += 1
        if count and count not in counts:
            counts.append(count)
    for count in counts:
        away = frozenset(order[:count])
        for ahead in _AHEAD:
            fetched = {(_begin(graph, transfers, one, readers[one], ahead), one) for one in away}
            yield tuple(sorted({*schedule.reruns, *fetched})), away | schedule.offloaded


def _first_readers(graph: Graph, transfers: Transfers, schedule: Schedule) -> dict[int, int]:
    """Return the first backward reader of each operation whose kept value may be offloaded."""
    found: dict[int, int] = {}
    # Producers of the values that the reruns before the next operation read.
    waiting: set[int] = set()
    rerun = {one for _, one in schedule.reruns}
    for index, again in zip(schedule.operations.tolist(), schedule.again.tolist(), strict=True):
        if not (again and index in schedule.offloaded):
            waiting.update(graph.values[one].producer for one in graph.operations[index].reads)
        if again:
            continue
        if index >= graph.forward:
            for one in waiting:
                if transfers.can_offload(one) and one not in rerun:
                    found.setdefault(one, index)
        waiting.clear()
    return found


def _size(graph: Graph, index: int) -> int:
    value = offloaded_value(graph, index)
    return 0 if value is None else graph.values[value].size


def _begin(graph: Graph, transfers: Transfers, index: int, reader: int, ahead: float) -> int:
    """Return the operation before which a fetch for `reader` begins; `ahead` is as in `_AHEAD`."""
    left, moment = ahead * transfers.seconds[index], reader
    home = graph.operations[index].home
    while left > 0 and moment > graph.forward and graph.operations[moment - 1].home == home:
        moment -= 1
        left -= graph.operations[moment].cost
    return moment
