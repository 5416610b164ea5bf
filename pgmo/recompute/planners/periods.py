"""Period of a step with repeated operations, such as the step of a model with many equal layers.

norm  mul  gelu  |  norm  mul  gelu  |  norm  mul  gelu  |  loss        a period of three
"""

from collections.abc import Sequence

import numpy as np

from pgmo.recompute.planners.graph import Graph

_ALIKE = 0.75
"""Minimum share of operations that recur after a period. The ends of a network do not recur."""

_TIMES = 4
"""Minimum number of periods in a step."""

_LEAST = 1000
"""Minimum number of operations of a step. Smaller steps are searched quickly without a period."""


def period(graph: Graph, operations: Sequence[int]) -> int:
    """Return the number of operations after which equal operations recur; 0 without a period.

    `operations` are the numbers of the operations to compare, ascending.
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
