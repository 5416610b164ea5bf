"""Division of a convolution's backward pass into two nodes, to lower the peak.

    convolution_backward   gradients of input and weights, with both workspaces
    becomes
    convolution_backward   weights: the input's gradient is not allocated yet
    convolution_backward   input: the first workspace is free again

The undivided node also computes the two gradients one after the other, with the same kernels. So
results are bit-identical. The second node needs only the shape of the convolution's input. If no
later node reads the input, an expanded number replaces the input (`_is_last`), as in
`torch.nn.grad.conv2d_input`, and the input is freed. Division may also raise the peak, for example
on a CPU, where each half copies the output's gradient. So a node is divided only if the undivided
node exceeds the budget and its halves take less memory.
"""

from collections.abc import Collection, Iterator, Mapping
from itertools import chain, pairwise
from operator import getitem
from typing import cast

import torch
from torch import fx

from pgmo.recompute.capture.compat import fakes, storage_key
from pgmo.recompute.capture.graphs import graph_module
from pgmo.recompute.capture.joint_graph import Captured
from pgmo.recompute.capture.memory_use.facts import forget_facts
from pgmo.recompute.planners.schedule import Schedule

_HALF = "pgmo_half_of"  # Key of a node's `meta`: name of the node that was divided.
CONVOLUTION_BACKWARD = torch.ops.aten.convolution_backward.default
_MASK = 10  # Position of the argument that selects the gradients of input, weights and bias.
_COPYING = {"cpu"}  # Devices whose kernels copy the input even if they do not read it.


def dividable(captured: Captured) -> frozenset[str]:
    """Return the names of nodes that compute a convolution's input gradient and another gradient.

    Nodes of the forward pass are excluded, even if a forward pass computes derivatives: planners
    choose forward operations by number, and division would change these numbers.
    """
    nodes = captured.joint.graph.find_nodes(op="call_function", target=CONVOLUTION_BACKWARD)
    return frozenset(
        node.name
        for node in nodes
        if node in captured.backward and node.args[_MASK][0] and any(node.args[_MASK][1:])
    )


def divide(joint: fx.GraphModule, names: Collection[str]) -> fx.GraphModule:
    """Return a copy of a joint graph in which the named nodes are divided."""
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    last = _last_readers(joint.graph)
    for node in joint.graph.nodes:
        if node.name in names:
            copies |= _halves(graph, node, copies, _is_last(node, last))
        elif node not in copies:
            copies[node] = graph.node_copy(node, copies.__getitem__)
    return graph_module(joint, graph)


def _halves(
    graph: fx.Graph, node: fx.Node, copies: dict[fx.Node, fx.Node], last: bool
) -> dict[fx.Node, fx.Node]:
    """Add both halves of a node; return the replacements of the `getitem` nodes that read it."""
    arguments = [fx.node.map_arg(one, copies.__getitem__) for one in node.args[:_MASK]]
    gradient, x = (copies[cast("fx.Node", one)] for one in node.args[:2])
    inputs = (x, _stand_in(graph, gradient, x) if last else x)
    mask = cast("list[bool]", node.args[_MASK])
    items = {}
    for half in ([False, *mask[1:]], [True, False, False]):
        arguments[1] = inputs[half[0]]
        made = graph.call_function(CONVOLUTION_BACKWARD, (*arguments, half))
        made.meta = {**node.meta, _HALF: node.name}
        forget_facts(made)
        made.meta["val"] = tuple(
            one if wanted else None for one, wanted in zip(node.meta["val"], half, strict=True)
        )
        for item in node.users:
            index = cast("int", item.args[1])
            if half[index]:
                items[item] = graph.call_function(getitem, (made, index))
                items[item].meta = dict(item.meta)
    return items


def _last_readers(graph: fx.Graph) -> dict[int, fx.Node]:
    return {
        storage_key(one): node
        for node in graph.nodes
        for given in node.all_input_nodes
        for one in fakes(given.meta.get("val"))
    }


def _is_last(node: fx.Node, last: dict[int, fx.Node]) -> bool:
    """Return whether this node is the last reader of its input, and needs only the input's shape.

    An expanded number has no memory format, so input and weights must have the default strides.
    With one channel or pixel, a `channels_last` tensor is contiguous, too, but PyTorch runs another
    kernel for it, with other bits.
    """
    _, x, weight = (cast("fx.Node", one).meta["val"] for one in node.args[:3])
    if x.device.type in _COPYING or not (_is_usual(x) and _is_usual(weight)):
        return False
    return last[storage_key(x)] is node


def _is_usual(tensor: torch.Tensor) -> bool:
    """Return whether a tensor has elements and default strides."""
    usual = torch.empty(tensor.shape, device="meta").stride()
    return tensor.numel() > 0 and tensor.stride() == usual


def _stand_in(graph: fx.Graph, gradient: fx.Node, x: fx.Node) -> fx.Node:
    """Add nodes that expand one uninitialized number to the shape of `x`."""
    shape = list(x.meta["val"].shape)
    one = graph.call_function(torch.ops.aten.new_empty.default, (gradient, [1]))
    made = graph.call_function(torch.ops.aten.expand.default, (one, shape))
    example = gradient.meta["val"].new_empty([1])
    for node, value in ((one, example), (made, example.expand(shape))):
        node.meta = {**gradient.meta, "val": value, "partitioner_tag": "is_backward"}
        forget_facts(node)
    return made


def divided(captured: Captured) -> int:
    """Return the number of divided convolutions."""
    halves = {node.meta[_HALF] for nodes in captured.nodes for node in nodes if _HALF in node.meta}
    return len(halves)


def helpful(captured: Captured, workspace: Mapping[str, int]) -> frozenset[str]:
    """Return the names of the divided nodes that would take more memory undivided.

    `workspace` has the bytes of each undivided node by name.
    """
    operations, values = captured.graph.operations, captured.graph.values
    found = set()
    for name, index in _pairs(captured):
        first, second = operations[index : index + 2]
        weights, both = _written_bytes(captured, index), _written_bytes(captured, index, index + 1)
        gone = {one for one in first.reads if values[one].producer >= 0 and not values[one].result}
        gone.difference_update(second.reads)
        less = both + second.workspace - sum(values[one].size for one in gone)
        if max(weights + first.workspace, less) < both + workspace.get(name, 0):
            found.add(name)
    return frozenset(found)


def needed(
    captured: Captured, schedule: Schedule, limit: int, workspace: Mapping[str, int]
) -> frozenset[str]:
    """Return the names of the divided nodes that would exceed `limit` bytes undivided.

    Nodes are also included if another operation runs between the halves.
    """
    found = set()
    steps = {int(one): step for step, one in enumerate(schedule.operations)}
    for name, index in _pairs(captured):
        first, second = steps[index], steps[index + 1]
        held = int(schedule.live[first]) - captured.graph.operations[index].workspace
        held += _written_bytes(captured, index + 1)
        if second != first + 1 or held + workspace.get(name, 0) > limit:
            found.add(name)
    return frozenset(found)


def _pairs(captured: Captured) -> Iterator[tuple[str, int]]:
    """Yield the name of each divided node, and the number of its first half."""
    for index, (nodes, following) in enumerate(pairwise(captured.nodes)):
        name = nodes[0].meta.get(_HALF) if nodes else None
        if name is not None and following and following[0].meta.get(_HALF) == name:
            yield name, index


def _written_bytes(captured: Captured, *operations: int) -> int:
    values = captured.graph.values
    writes = (captured.graph.operations[index].writes for index in operations)
    return sum(values[one].size for one in chain.from_iterable(writes))
