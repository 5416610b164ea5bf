"""Schedule of one training step with recomputation, and its live bytes.

    forward                     backward
    0  1  2  3  4     |    5   (1) (2)  6   ...     (1): operation 1, run again

Dropped operations run again right before the first backward operation that needs them, in the order
of the forward pass. The recomputed values live until their last use. AOTAutograd orders backward
graphs in the same way (`reordering_to_mimic_autograd_engine` in
torch/_functorch/partitioners.py).

Reruns are more general. Forward operations may run again right before any later operation of their
graph, any number of times. A read returns the latest write, which lives until the last read before
the next write. The rerun of an offloaded operation fetches the operation's value from the host.

This file is the reference, with which tests compare the native evaluator (csrc/recompute).
"""

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pgmo.errors import GraphError
from pgmo.recompute.planners.graph import Graph
from pgmo.recompute.planners.offload.transfers import Transfers, offloaded_value, waiting
from pgmo.units import format_bytes

Reruns = tuple[tuple[int, int], ...]
"""Pairs (moment, operation): `operation` runs again right before operation `moment` of the step."""


@dataclass(frozen=True, eq=False, repr=False)
class Schedule:
    """The k runs of operations in order, and the m blocks of memory that hold their values.

    Args:
        graph: the step.
        operations: the operation of each run, shape (k,).
        again: whether each run is a rerun, shape (k,).
        value: the value of each block, shape (m,); -1 for a workspace. A value has a block for each
            of its lifetimes.
        start: the run that allocates each block, shape (m,).
        end: the first run in which each block is no longer live, shape (m,).
        size: bytes of each block, shape (m,).
        live: bytes live during each run, shape (k,).
        offloaded: operations whose reruns fetch the value from the host.
        transfers: transfers of the graph, or None.

    Example:
        >>> from pgmo.recompute.planners.graph import EXAMPLE
        >>> simulate(EXAMPLE)
        Schedule(3 steps, peak 132 B, overhead 0.0 %)
        >>> simulate(EXAMPLE, {0}).operations.tolist()
        [0, 1, 0, 2]
    """

    graph: Graph
    operations: NDArray[np.int64]
    again: NDArray[np.bool_]
    value: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    size: NDArray[np.int64]
    live: NDArray[np.int64]
    offloaded: frozenset[int] = frozenset()
    transfers: Transfers | None = None

    @property
    def peak(self) -> int:
        """Largest number of bytes live during any run."""
        return int(self.live.max(initial=0))

    @property
    def peak_step(self) -> int:
        """Index of the first run with the peak; 0 if there are no runs."""
        return int(np.argmax(self.live)) if len(self.live) else 0

    @property
    def peak_operation(self) -> int:
        """The operation of `peak_step`."""
        return int(self.operations[self.peak_step])

    @property
    def recomputed(self) -> frozenset[int]:
        """The operations that run more than once, without offloaded operations."""
        return frozenset(self.operations[self.again].tolist()) - self.offloaded

    @property
    def reruns(self) -> Reruns:
        """The reruns and fetches, in order."""
        found, waiting = [], []
        for index, again in zip(self.operations.tolist(), self.again.tolist(), strict=True):
            if again:
                waiting.append(index)
                continue
            found += [(index, one) for one in waiting]
            waiting.clear()
        return tuple(found)

    @property
    def cost(self) -> float:
        """Cost of reruns and of waits for transfers, in the unit of the graph."""
        return self._rerun_cost + self.waits

    @property
    def _rerun_cost(self) -> float:
        again = sorted(self.operations[self.again].tolist())
        reruns = (one for one in again if one not in self.offloaded)
        return float(sum(self.graph.operations[index].cost for index in reruns))

    def _share(self, cost: float) -> float:
        forward_cost = self.graph.forward_cost
        return cost / forward_cost if forward_cost else 0.0

    @property
    def rerun_share(self) -> float:
        """Cost of reruns as a share of the forward pass; 0 if the forward pass has no cost."""
        return self._share(self._rerun_cost)

    @property
    def waits(self) -> float:
        """Seconds of waits for transfers."""
        if self.transfers is None:
            return 0.0
        run = self.operations.tolist(), self.again.tolist()
        return waiting(self.graph, *run, self.offloaded, self.transfers)

    @property
    def wait_share(self) -> float:
        """`waits` as a share of the forward pass; 0 if the forward pass has no cost."""
        return self._share(self.waits)

    @property
    def host_bytes(self) -> int:
        """Bytes of the offloaded values."""
        values = (offloaded_value(self.graph, one) for one in self.offloaded)
        return sum(self.graph.values[one].size for one in values if one is not None)

    @property
    def overhead(self) -> float:
        """`cost` as a share of the forward pass; 0 if the forward pass has no cost."""
        return self._share(self.cost)

    def alive(self, step: int) -> NDArray[np.int64]:
        """Return the indices of the blocks that are live during a run, largest first."""
        blocks = np.flatnonzero((self.start <= step) & (step < self.end))
        return blocks[np.argsort(-self.size[blocks], kind="stable")]

    def __repr__(self) -> str:
        return (
            f"Schedule({len(self.operations)} steps, peak {format_bytes(self.peak)}, "
            f"overhead {100 * self.overhead:.1f} %)"
        )


def simulate(
    graph: Graph,
    choice: Collection[int] = frozenset(),
    reruns: Reruns | None = None,
    offloaded: frozenset[int] = frozenset(),
    transfers: Transfers | None = None,
) -> Schedule:
    """Return the schedule of a step.

    Args:
        graph: the step.
        choice: operations to drop, candidates of the graph.
        reruns: pairs (moment, operation); if given, `choice` is ignored.
        offloaded: operations whose reruns fetch the value from the host.
        transfers: transfers of the graph; required if an operation is offloaded.

    Raises:
        GraphError: if an operation cannot be dropped, run again or be offloaded in this way.

    Example:
        >>> from pgmo.recompute.planners.graph import EXAMPLE
        >>> simulate(EXAMPLE, reruns=((2, 0),)).operations.tolist()
        [0, 1, 0, 2]
    """
    if reruns is None:
        check_choice(graph, choice)
        reruns = _needed_reruns(graph, frozenset(choice))
    else:
        check_reruns(graph, reruns, offloaded, transfers)
    operations, again = _order(graph, reruns)
    offloaded = offloaded.intersection(index for _, index in reruns)
    sending = _sending(graph, offloaded, transfers)
    steps = len(operations)
    blocks: list[list[int]] = []  # Value, start, end.
    current: dict[int, int] = {}  # The block that holds each value.
    for step, index in enumerate(operations):
        operation = graph.operations[index]
        fetched = again[step] and index in offloaded
        reads = () if fetched else operation.reads
        for value in reads if again[step] else (*reads, *sending[index]):
            if value in current:
                block = blocks[current[value]]
                block[2] = max(block[2], step + 1)
        for value in operation.writes:
            if fetched and not is_made_again(graph, value):
                continue
            if not again[step] or is_made_again(graph, value):
                current[value] = len(blocks)
            stays = graph.values[value].result and not again[step]
            blocks.append([value, step, steps if stays else step + 1])
    table = np.array(blocks, dtype=np.int64).reshape(-1, 3)
    size = np.array([graph.values[value].size for value, _, _ in blocks], dtype=np.int64)
    workspace = np.array([graph.operations[index].workspace for index in operations], np.int64)
    if offloaded:
        workspace[np.array(again) & np.isin(operations, list(offloaded))] = 0
    busy = np.flatnonzero(workspace)
    content = np.concatenate([table[:, 0], np.full(len(busy), -1, np.int64)])
    start = np.concatenate([table[:, 1], busy])
    end = np.concatenate([table[:, 2], busy + 1])
    size = np.concatenate([size, workspace[busy]])
    change = np.zeros(steps + 1, np.int64)
    np.add.at(change, start, size)
    np.add.at(change, end, -size)
    return Schedule(
        graph,
        np.array(operations, np.int64),
        np.array(again, np.bool_),
        content,
        start,
        end,
        size,
        np.cumsum(change)[:steps],
        offloaded,
        transfers,
    )


def refit(
    graph: Graph, reruns: Reruns, offloaded: frozenset[int], transfers: Transfers | None
) -> Schedule:
    """Return the schedule of `graph` with another graph's reruns, without impossible transfers."""
    if transfers is not None:
        transfers = Transfers.of(graph, transfers.rate)
        offloaded, reruns = transfers.fitting(offloaded, reruns)
    return simulate(graph, (), reruns, offloaded, transfers)


def is_dropped(graph: Graph, choice: Collection[int], value: int) -> bool:
    """Return whether a value is dropped with the operations of `choice`."""
    return graph.values[value].producer in choice and is_made_again(graph, value)


def is_made_again(graph: Graph, value: int) -> bool:
    """Return whether a rerun of a value's producer makes the value again; if not, it is saved."""
    one = graph.values[value]
    return not one.pinned and not one.result


def check_reruns(
    graph: Graph,
    reruns: Reruns,
    offloaded: frozenset[int],
    transfers: Transfers | None,
) -> None:
    """Raise GraphError for a rerun or fetch that is impossible."""
    for index in offloaded:
        if transfers is None or not transfers.can_offload(index):
            raise GraphError(
                f"operation {index} cannot be offloaded: this needs transfers, and a forward "
                "operation that writes exactly one value that can be dropped"
            )
    for moment, index in reruns:
        if not 0 <= index < min(moment, graph.forward) or moment >= len(graph.operations):
            raise GraphError(
                f"operation {index} cannot run again before operation {moment}: only the forward "
                f"operations, 0 to {graph.forward - 1}, can run again, each before a later one of "
                f"the {len(graph.operations)} operations"
            )
        if not is_at_home(graph, moment, index):
            raise GraphError(
                f"operation {index} cannot run again before operation {moment}, which belongs to "
                "another graph of the step"
            )
        if index in offloaded and transfers is not None and moment < transfers.until[index]:
            raise GraphError(
                f"operation {index} cannot be fetched before operation {moment}: its value is on "
                f"the host only from operation {transfers.until[index]} on"
            )
        if graph.operations[index].pinned and index not in offloaded:
            raise GraphError(
                f"operation {index} ({graph.operations[index].name}) cannot run again: it is pinned"
            )


def is_at_home(graph: Graph, moment: int, index: int) -> bool:
    """Return whether operations `moment` and `index` belong to the same graph of the step."""
    return graph.operations[moment].home == graph.operations[index].home


def _sending(
    graph: Graph, offloaded: frozenset[int], transfers: Transfers | None
) -> dict[int, list[int]]:
    """Return the values that each operation must keep alive for a transfer to the host."""
    found: dict[int, list[int]] = defaultdict(list)
    for index in offloaded:
        value = offloaded_value(graph, index)
        if transfers is not None and value is not None and transfers.until[index] > index + 1:
            found[transfers.until[index] - 1].append(value)
    return found


def check_choice(graph: Graph, choice: Collection[int]) -> None:
    """Raise GraphError if an operation of a choice is not a candidate."""
    wrong = sorted(frozenset(choice).difference(graph.candidates()))
    if not wrong:
        return
    index = wrong[0]
    if not 0 <= index < graph.forward:
        raise GraphError(
            f"operation {index} cannot be dropped: the forward pass has the operations 0 to "
            f"{graph.forward - 1}"
        )
    operation = graph.operations[index]
    unneeded = "it writes no value that is needed again and can be dropped"
    reason = "it is pinned" if operation.pinned else unneeded
    raise GraphError(
        f"operation {index} ({operation.name}) cannot be dropped: {reason}; "
        "choose from graph.candidates()"
    )


def _needed_reruns(graph: Graph, choice: frozenset[int]) -> Reruns:
    """Return the reruns of a choice: each right before the backward pass needs its values."""
    found: list[tuple[int, int]] = []
    done: set[int] = set()  # Operations that have run again.
    for index in range(graph.forward, len(graph.operations)):
        missing: set[int] = set()
        stack = [index]
        while stack:
            for value in graph.operations[stack.pop()].reads:
                producer = graph.values[value].producer
                if (
                    is_dropped(graph, choice, value)
                    and producer not in done
                    and producer not in missing
                ):
                    missing.add(producer)
                    stack.append(producer)
        done |= missing
        found += [(index, one) for one in sorted(missing)]
    return tuple(found)


def _order(graph: Graph, reruns: Reruns) -> tuple[list[int], list[bool]]:
    """Return the operation of each run, and whether it is a rerun."""
    rows: dict[int, set[int]] = defaultdict(set)
    for moment, index in reruns:
        rows[moment].add(index)
    operations: list[int] = []
    again: list[bool] = []
    for moment in range(len(graph.operations)):
        operations += [*sorted(rows[moment]), moment]
        again += [True] * len(rows[moment]) + [False]
    return operations, again
