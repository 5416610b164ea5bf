"""Conversion of AOTAutograd's joint graph to the operations and values that planners use.

    nodes       convolution   batch_norm   getitem 0, 1, ...   relu   view   t(weight)
    operations  convolution   batch_norm                       relu
    values      convolution   out, mean, rstd                  relu          (a parameter's view)

Views and `getitem` nodes take no time and no memory (`grouping.py`).
"""

import operator
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace

from torch import fx
from torch.utils.checkpoint import CheckpointPolicy

from pgmo.errors import GraphError
from pgmo.recompute.capture import dropout
from pgmo.recompute.capture.compat import MODULE_PREFIX, fakes, flatten, is_tangent
from pgmo.recompute.capture.grouping import TANGENT, Grouping, has_effect
from pgmo.recompute.capture.memory_use.costs import is_random, modelled, operator_name
from pgmo.recompute.capture.memory_use.workspaces import OperatorMeasurement
from pgmo.recompute.planners.graph import Graph, Operation, Value

_CHECKPOINTS = (CheckpointPolicy.MUST_RECOMPUTE, CheckpointPolicy.PREFER_RECOMPUTE)
"""Dynamo's marks of nodes in `torch.utils.checkpoint`."""

_NORMALISATIONS = {
    "aten._native_batch_norm_legit_functional",
    "aten._batch_norm_with_update_functional",
}
"""Operators whose arguments 3 and 4 are running statistics, and whose last two results are the
updated statistics. In training, no other result depends on the running statistics."""


@dataclass(frozen=True, eq=False)
class Captured:
    """Graph for planners, and the nodes of the joint graph that it was made from.

    Args:
        graph: the graph that planners work on.
        joint: the graph that AOTAutograd traced.
        outputs: number of outputs of the forward pass.
        nodes: for each operation, its node and the `getitem` nodes of its result; none for the
            operation that stands for the gradients of the outputs.
        value_of: the value that each node is, or is a view of.
        root_of: the first node of each value, which is not a view; a placeholder for inputs.
        views: nodes without memory of their own: views of values, and nodes that compute numbers.
        backward: nodes of the backward pass, with the gradients of the outputs.
        checkpoints: for each call of `torch.utils.checkpoint`, operations that it would run again.
    """

    graph: Graph
    joint: fx.GraphModule
    outputs: int
    nodes: tuple[tuple[fx.Node, ...], ...]
    value_of: dict[fx.Node, int]
    root_of: dict[int, fx.Node]
    views: frozenset[fx.Node]
    backward: frozenset[fx.Node]
    checkpoints: tuple[frozenset[int], ...] = ()

    def names(self, operations: Iterable[int]) -> set[str]:
        """Return the names of the operations' nodes, which are the same in copies of the graph."""
        return {self.nodes[index][0].name for index in operations if self.nodes[index]}

    def numbers(self, names: Collection[str]) -> frozenset[int]:
        """Return the numbers of the forward operations with these names."""
        forward = enumerate(self.nodes[: self.graph.forward])
        return frozenset(index for index, nodes in forward if nodes and nodes[0].name in names)

    def replaced(self, node: fx.Node) -> dict[fx.Node, fx.Node]:
        """Return a map from inputs of a node to the nodes that it reads instead when it runs again.

        A batch normalization that runs again reads its updated running statistics, because these
        overwrite the previous ones. In training, its results do not depend on running statistics.
        """
        if operator_name(node) not in _NORMALISATIONS:
            return {}
        items = {user.args[1]: user for user in node.users if user.target is operator.getitem}
        last = len(node.meta["val"])
        return {
            argument: items[last - 2 + index]
            for index, argument in enumerate(node.args[3:5])
            if isinstance(argument, fx.Node) and last - 2 + index in items
        }


_NO_LSTM = (
    "the LSTM of oneDNN cannot be captured: its forward pass saves tensors for the backward pass "
    "only while autograd records it. Use PyTorch's own LSTM: run and capture the model in "
    "`with torch.backends.mkldnn.flags(enabled=False):`"
)


def refuse_unplannable(joint: fx.GraphModule) -> None:
    """Raise GraphError if a graph has an operator that cannot run as captured."""
    for node in joint.graph.nodes:
        if operator_name(node) == "aten.mkldnn_rnn_layer_backward":
            raise GraphError(_NO_LSTM)


def _is_collective(node: fx.Node) -> bool:
    return getattr(node.target, "namespace", "") in ("_c10d_functional", "c10d", "c10d_functional")


def capture(
    joint: fx.GraphModule,
    outputs: int,
    measured: Callable[[fx.Node], OperatorMeasurement] = lambda _node: OperatorMeasurement(),
) -> Captured:
    """Group the nodes of a joint graph into operations on values.

    Removes nodes from `joint` that nothing reads, and repeated `getitem` nodes. Raises GraphError
    if sizes are symbolic.

    Args:
        joint: the graph of the forward and the backward pass.
        outputs: number of outputs of the forward pass.
        measured: called with a node; returns the measurement of its operator, by default zeros.
    """
    joint.graph.eliminate_dead_code()
    _unite_items(joint.graph)
    grouping = Grouping(joint, 512 if _on_cuda(joint) else 1)
    drafts, values = grouping.drafts, grouping.value_of
    order = sorted(range(len(drafts)), key=lambda index: drafts[index].backward)
    forward = sum(not draft.backward for draft in drafts)
    number = {
        old: new + (new >= forward and bool(grouping.tangents)) for new, old in enumerate(order)
    }
    result = _results(grouping)
    mutated = _mutated(grouping)
    modules = _modules(joint)
    operations = []
    for old in order:
        draft = drafts[old]
        node = draft.node
        name = operator_name(node)
        writes = tuple(draft.writes)
        measurement = measured(node)
        if writes and not draft.applies:
            grouping.sizes[writes[0]] += measurement.held
        operation = Operation(
            name=name,
            reads=tuple(sorted(draft.reads)),
            writes=writes,
            cost=modelled(node),
            workspace=measurement.workspace,
            pinned=(
                has_effect(node)
                or _is_collective(node)
                or is_random(node)
                or (name not in _NORMALISATIONS and not mutated.isdisjoint(draft.reads))
            ),
            module=modules.get(node, ""),
        )
        if draft.applies:
            operation = dropout.applied(node, operation, grouping.sizes[draft.writes[0]])
        elif old + 1 < len(drafts) and drafts[old + 1].applies:
            # The operation draws a dropout's mask. The kernel's other result is not used.
            unused = grouping.sizes[drafts[old + 1].writes[0]]
            operation = replace(operation, workspace=operation.workspace + unused)
        operations.append(operation)
    nodes = [
        dropout.items(draft.node)[:1] if draft.applies else (draft.node, *draft.items)
        for draft in (drafts[old] for old in order)
    ]
    if grouping.tangents:
        gradients = Operation(
            "gradients of the outputs", (), tuple(grouping.tangents), 0.0, 0, True
        )
        operations.insert(forward, gradients)
        nodes.insert(forward, ())
    graph = Graph(
        tuple(operations),
        tuple(
            Value(
                size,
                forward if producer == TANGENT else number.get(producer, -1),
                index in result,
                pinned,
            )
            for index, (size, producer, pinned) in enumerate(
                zip(grouping.sizes, grouping.producers, grouping.pinned, strict=True)
            )
        ),
        forward,
    )
    return Captured(
        graph,
        joint,
        outputs,
        tuple(nodes),
        values,
        grouping.root_of,
        frozenset(grouping.views),
        frozenset(grouping.backward),
        _checkpoints(graph, {number[old]: drafts[old].node for old in order}),
    )


def _unite_items(graph: fx.Graph) -> None:
    """Merge the `getitem` nodes of each item, so that all readers share a saved item."""
    first: dict[tuple[object, object], fx.Node] = {}
    for node in list(graph.nodes):
        if node.target is operator.getitem:
            same = first.setdefault((node.args[0], node.args[1]), node)
            if same is not node:
                node.replace_all_uses_with(same)
                graph.erase_node(node)


def _checkpoints(graph: Graph, nodes: dict[int, fx.Node]) -> tuple[frozenset[int], ...]:
    """Return the operations that each call of `torch.utils.checkpoint` runs again.

    A value is saved if a forward operation outside of the call reads it. The operations that write
    saved values are left out.
    """
    regions = {
        index: node.meta.get("ac_graph_id")
        for index, node in nodes.items()
        if node.meta.get("recompute") in _CHECKPOINTS
    }
    again = set(regions)
    for index, operation in enumerate(graph.operations[: graph.forward]):
        for value in operation.reads:
            producer = graph.values[value].producer
            if producer in again and regions.get(index) != regions[producer]:
                again.discard(producer)
    found: dict[object, set[int]] = {}
    for index in again:
        found.setdefault(regions[index], set()).add(index)
    return tuple(map(frozenset, found.values()))


def _results(grouping: Grouping) -> set[int]:
    last = next(iter(grouping.joint.graph.find_nodes(op="output")))
    return {grouping.value_of[node] for node in last.all_input_nodes if node in grouping.value_of}


def _mutated(grouping: Grouping) -> set[int]:
    """Return the values of inputs that are overwritten after the forward pass, such as buffers."""
    graph = grouping.joint.graph
    last = next(iter(graph.find_nodes(op="output")))
    given = [node for node in graph.find_nodes(op="placeholder") if not is_tangent(node)]
    marks = flatten(last.meta.get("desc", ()))[0]
    inputs = [mark.mutated_input for mark in marks if hasattr(mark, "mutated_input")]
    return {
        grouping.value_of[node]
        for node in given
        if node in grouping.value_of and node.meta.get("desc") in inputs
    }


def _modules(joint: fx.GraphModule) -> dict[fx.Node, str]:
    """Return known module paths of nodes; a backward node has the path of its forward node."""
    found: dict[fx.Node, str] = {}
    by_sequence: dict[object, str] = {}
    for node in joint.graph.nodes:
        sequence = node.meta.get("seq_nr")
        path: str | None = by_sequence.get(sequence)
        if node.meta.get("nn_module_stack"):
            path = MODULE_PREFIX.sub("", str(list(node.meta["nn_module_stack"].values())[-1][0]))
        if path is not None:
            found[node] = path
            if sequence is not None:
                by_sequence.setdefault(sequence, path)
    return found


def _on_cuda(joint: fx.GraphModule) -> bool:
    return any(
        one.device.type == "cuda"
        for node in joint.graph.find_nodes(op="placeholder")
        for one in fakes(node.meta.get("val"))
    )
