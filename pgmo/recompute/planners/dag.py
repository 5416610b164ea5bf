"""The forward pass as a graph of operations, with an edge from each writer of a value to readers.

o--o--o | o--o      on the left: no edge leads into it from outside
----+-o         its boundary: the two members that something outside reads
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pgmo.recompute.planners.graph import Graph


@dataclass(frozen=True, eq=False)
class Dag:
    """The forward pass as n nodes: operations, with the bytes that they write.

    Args:
        reads: for each node, the nodes whose values it reads, ascending.
        size: bytes of each node's values, shape (n,); results are not counted, which live anyway.

    Example:
        >>> Dag(((), (0,), (1,)), np.array([8, 8, 8])).ancestors[2].tolist()
        [True, True, True]
    """

    reads: tuple[tuple[int, ...], ...]
    size: NDArray[np.int64]

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
        )

    def __len__(self) -> int:
        return len(self.reads)

    @cached_property
    def ancestors(self) -> NDArray[np.bool_]:
        """Whether row's node depends on column's, itself included, shape (n, n)."""
        table = np.eye(len(self), dtype=np.bool_)
        for node, reads in enumerate(self.reads):
            for read in reads:
                table[node] |= table[read]
        return table

    def boundary(self, members: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return the members of each set that something outside reads, shape (k, n) in and out."""
        outside = np.ascontiguousarray(~members.T)  # with a contiguous row for each node
        found = np.zeros_like(outside)
        for node, reads in enumerate(self.reads):
            for read in reads:
                found[read] |= outside[node]
        return np.ascontiguousarray(found.T) & members
