"""Dropout as two operations: the first draws a mask and never runs twice, the second applies it.

    native_dropout(x, p)  ->  result, mask           mask: one byte per element
    x * mask * (1 / (1 - p))  =  result              the same bits as the kernel

So the result can be dropped if its mask is saved. In float32, the mask takes a quarter of the bytes
of the result.
"""

from dataclasses import replace
from operator import getitem

import torch
from torch import fx

from pgmo.recompute.capture.compat import fakes, renewed
from pgmo.recompute.capture.memory_use.costs import bandwidth, operator_name
from pgmo.recompute.capture.memory_use.facts import forget_facts
from pgmo.recompute.planners.graph import Operation

APPLIED = "dropout by its mask"


def is_dropout(node: fx.Node) -> bool:
    """Return whether a node draws a dropout mask with 0 < p < 1, and both its results are used."""
    if operator_name(node) != "aten.native_dropout" or node.args[2] is not True:
        return False
    if not 0 < float(str(node.args[1])) < 1:
        return False
    return {user.args[1] for user in node.users if user.target is getitem} == {0, 1}


def items(node: fx.Node) -> tuple[fx.Node, fx.Node]:
    """Return the result and the mask of a dropout."""
    found = {user.args[1]: user for user in node.users}
    return found[0], found[1]


def parts(result: fx.Node) -> tuple[fx.Node, fx.Node, fx.Node]:
    """Return the dropout node of a result, the node's input, and the node's mask."""
    node = result.all_input_nodes[0]
    return node, node.all_input_nodes[0], items(node)[1]


def applied(node: fx.Node, operation: Operation, size: int) -> Operation:
    """Return the operation that applies the mask; `size` is the number of bytes of its result.

    The workspace is the unscaled product.
    """
    result = fakes(node.meta["val"])[0]
    cost = 4 * size / bandwidth(result.device.type)
    return replace(operation, name=APPLIED, cost=cost, workspace=size, pinned=False)


def apply_again(
    graph: fx.Graph, node: fx.Node, x: fx.Node, mask: fx.Node
) -> tuple[fx.Node, fx.Node]:
    """Add the two nodes that compute a dropout's result from its mask, and return them."""
    kept = graph.call_function(torch.ops.aten.mul.Tensor, (x, mask))
    scale = 1.0 / (1.0 - float(str(node.args[1])))
    result = graph.call_function(torch.ops.aten.mul.Tensor, (kept, scale))
    for made in (kept, result):
        made.meta.update(items(node)[0].meta)
        forget_facts(made)
    kept.meta["val"] = renewed(kept.meta["val"])
    return kept, result
