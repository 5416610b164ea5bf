"""Lower sets of the forward pass: sets of operations that read nothing from outside.

    o--o--o | o--o      a lower set, on the left
        ----+-o         its boundary: the two members that outside operations read

Kusumoto et al. 2019, sections 3 and 4 (arXiv 1905.11722).
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pgmo.recompute.planners.graph import Graph


@dataclass(frozen=True, eq=False)
class Dag:
    """The n operations of a forward pass as a directed acyclic graph.

    Args:
        reads: for each node, the nodes whose values it reads, ascending.
        size: bytes of each node's values, shape (n,). Results do not count: they are never freed.
        cost: cost of each node, shape (n,).
    """

    reads: tuple[tuple[int, ...], ...]
    size: NDArray[np.int64]
    cost: NDArray[np.float64]

    @classmethod
    def of(cls, graph: Graph) -> "Dag":
        """Return the forward pass of a graph."""
        values, forward = graph.values, graph.operations[: graph.forward]
        producers = (
            {values[value].producer for value in operation.reads} - {-1} for operation in forward
        )
        written = (
            [values[value].size for value in operation.writes if not values[value].result]
            for operation in forward
        )
        return cls(
            tuple(tuple(sorted(one)) for one in producers),
            np.array([sum(sizes) for sizes in written], np.int64),
            np.array([operation.cost for operation in forward], np.float64),
        )

    def __len__(self) -> int:
        return len(self.reads)

    @cached_property
    def ancestors(self) -> NDArray[np.bool_]:
        """Return whether the row's node is the column's node or depends on it, shape (n, n)."""
        table = np.eye(len(self), dtype=np.bool_)
        for node, reads in enumerate(self.reads):
            for read in reads:
                table[node] |= table[read]
        return table

    def boundary(self, members: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return the members of k sets that outside nodes read; both arrays are (k, n)."""
        return self.read_by(~members) & members

    def next_up(self, members: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return the nodes outside k sets that read from the sets; both arrays are (k, n)."""
        inside, found = _by_node(members)
        for node, reads in enumerate(self.reads):
            for read in reads:
                found[node] |= inside[read]
        return np.ascontiguousarray((found & ~inside).T)

    def read_by(self, members: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return the nodes that the members of k sets read; both arrays are (k, n)."""
        inside, found = _by_node(members)
        for node, reads in enumerate(self.reads):
            for read in reads:
                found[read] |= inside[node]
        return np.ascontiguousarray(found.T)


def ancestor_sets(dag: Dag, most: int = 1500) -> NDArray[np.bool_]:
    """Return the paper's approximate family of lower sets, shape (k, n), by number of members.

    The family has the ancestors of each node, the empty set, and the set of all nodes. If there are
    more than `most` nodes, the ancestors of `most` evenly spaced nodes are used, because the
    dynamic program is quadratic in the number of sets.
    """
    nodes = np.unique(np.linspace(0, len(dag) - 1, min(most, len(dag))).astype(np.int64))
    ends = np.zeros((2, len(dag)), np.bool_)
    ends[1] = True
    return _in_order(np.concatenate([dag.ancestors[nodes], ends]))


def _by_node(members: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return the transposed sets, contiguous, and an array of zeros of their shape."""
    inside = np.ascontiguousarray(members.T)
    return inside, np.zeros_like(inside)


def _in_order(members: NDArray[np.bool_]) -> NDArray[np.bool_]:
    # `np.unique` would compare rows element by element, which takes seconds.
    rows = {row.tobytes(): index for index, row in enumerate(np.packbits(members, axis=1))}
    unique = members[[rows[key] for key in sorted(rows)]]
    return unique[np.argsort(unique.sum(axis=1), kind="stable")]
