"""Whether autograd adds up the same gradients in the same order when a part is captured.

    plain        gradient of x = ((outside + in the part) + in the part)
    captured     gradient of x = outside + (in the part + in the part)      other bits

A part gives each of its inputs one gradient. Where that is a sum, and x gets another one from
elsewhere, the bits are others: such a part is not captured.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from torch import Tensor, fx

from pgmo.recompute.capture.compat import flatten, is_tangent
from pgmo.recompute.capture.in_place import ADD, ADD_IN_PLACE
from pgmo.recompute.capture.joint_graph import Captured


def sums(captured: Captured) -> list[bool]:
    """Of each input of a joint graph, whether its gradient is a sum of several."""
    (last,) = captured.joint.graph.find_nodes(op="output")
    given = [
        node for node in captured.joint.graph.find_nodes(op="placeholder") if not is_tangent(node)
    ]
    gradients = flatten(last.args)[0][captured.outputs :][: len(given)]
    return [_is_sum(node, captured) for node in gradients]


def _is_sum(node: object, captured: Captured) -> bool:
    while isinstance(node, fx.Node) and node in captured.views and node.all_input_nodes:
        node = node.all_input_nodes[0]
    return isinstance(node, fx.Node) and node.target in (ADD, ADD_IN_PLACE)


class Edges:
    """How many gradients each tensor of a step gets.

    Args:
        results: that are differentiated.
    """

    def __init__(self, results: Sequence[Tensor]) -> None:
        self._count: Counter[tuple[Any, int]] = Counter()
        self._leaves: Counter[int] = Counter()
        self._nodes: set[Any] = set()
        stack = [one.grad_fn for one in results if one.grad_fn is not None]
        self._nodes.update(stack)
        while stack:
            for edge in stack.pop().next_functions:
                function = edge[0]
                if function is None:
                    continue
                self._count[edge] += 1
                leaf = getattr(function, "variable", None)
                if leaf is not None:
                    self._leaves[id(leaf)] += 1
                if function not in self._nodes:
                    self._nodes.add(function)
                    stack.append(function)

    def of_input(self, node: Any, place: int) -> int:
        """Gradients of what a node was given at a place; the node's own is one of them."""
        return self._count[node.next_functions[place]]

    def of_leaf(self, tensor: Tensor) -> int:
        """Gradients of a parameter."""
        return self._leaves[id(tensor)]

    def __contains__(self, node: object) -> bool:
        return node in self._nodes
