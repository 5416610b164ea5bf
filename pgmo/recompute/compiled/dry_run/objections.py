"""Reasons why a captured graph might compute other bits than the plain model.

ORDER     plain       gradient of x = ((outside + in the graph) + in the graph)
          captured    gradient of x = outside + (in the graph + in the graph)
LAYOUT    plain       a convolution's gradient has a transposed layout
          captured    it is copied to the traced layout, and added up in another order
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from torch import Tensor, fx

from pgmo.recompute.capture.compat import autograd_nodes, storage_key
from pgmo.recompute.capture.in_place import ADD, ADD_IN_PLACE

ORDER = (
    "it may use a tensor several times that other code uses, too, so gradients might be added up "
    "in another order"
)
LAYOUT = (
    "gradients of its results have another layout than captured, so they would be copied, and "
    "sums might be added up in another order"
)

Layout = tuple[tuple[int, int], ...]
"""Size and stride of each dimension whose size is not 1."""


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
    """Return the number of gradients that a backward pass adds up for each (node, input number)."""
    return Counter(
        edge
        for node in autograd_nodes(one.grad_fn for one in results)
        for edge in node.next_functions
        if edge[0] is not None
    )
