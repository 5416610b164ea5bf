"""Reasons why a captured graph would give other bits than the plain model.

plain       gradient of x = ((outside + in the graph) + in the graph)
captured    gradient of x = outside + (in the graph + in the graph)

plain       a convolution gets a gradient in its own, transposed layout
captured    it gets a copy in the traced layout, and adds in another order
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from torch import Tensor, fx

from pgmo.recompute.capture.compat import storage_key
from pgmo.recompute.capture.in_place import ADD, ADD_IN_PLACE

ORDER = (
    "it uses a tensor several times that is used outside of it, too: gradients would be added up "
    "in another order"
)
LAYOUT = (
    "gradients come in another layout than its results have: they would be copied, and added up "
    "in another order"
)

Layout = tuple[tuple[int, int], ...]
"""Sizes and strides of the dimensions that have more than one element."""


def layout(tensor: Tensor) -> Layout:
    """Return the layout of a tensor in memory."""
    return tuple(
        (int(size), int(stride))
        for size, stride in zip(tensor.shape, tensor.stride(), strict=True)
        if size != 1
    )


def is_sum(gradient: object) -> bool:
    """Return whether a node of a joint graph is a sum, or a view of a sum."""
    while isinstance(gradient, fx.Node) and gradient.all_input_nodes:
        base = gradient.all_input_nodes[0]
        if gradient.target in (ADD, ADD_IN_PLACE):
            return True
        if not _share(gradient, base):
            return False
        gradient = base
    return False


def _share(node: fx.Node, other: fx.Node) -> bool:
    values = [one.meta.get("val") for one in (node, other)]
    keys = {storage_key(one) for one in values if isinstance(one, Tensor)}
    return len(keys) == 1 and all(isinstance(one, Tensor) for one in values)


def edges(results: Iterable[Tensor]) -> Counter[tuple[Any, int]]:
    """Return the number of gradients that each input of an autograd node gets in a backward pass.

    Keys are the node and the place among its inputs.
    """
    stack = [one.grad_fn for one in results if one.grad_fn is not None]
    nodes: set[Any] = set(stack)
    found: Counter[tuple[Any, int]] = Counter()
    while stack:
        for edge in stack.pop().next_functions:
            function = edge[0]
            if function is None:
                continue
            found[edge] += 1
            if function not in nodes:
                nodes.add(function)
                stack.append(function)
    return found
