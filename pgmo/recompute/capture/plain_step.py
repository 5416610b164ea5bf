"""Graph of the plain step, which PyTorch would run without pgmo.

The plain step differs from the captured step:

- The operations in a `torch.utils.checkpoint` run again before the first derivative that reads a
  value of these operations.
- The operators of one derivative free their inputs together at the end. Values that a custom
  function computes are freed earlier, one by one.
- Dropout on a CPU draws and saves factors in the dtype of its input, not a mask of bytes.
"""

from dataclasses import replace
from itertools import groupby

from torch import fx

from pgmo.recompute.capture.compat import fakes
from pgmo.recompute.capture.dropout import APPLIED
from pgmo.recompute.capture.joint_graph import Captured
from pgmo.recompute.planners.graph import Graph, Operation, Value
from pgmo.recompute.planners.schedule import Reruns


def plain_step(captured: Captured) -> Graph:
    """Return a graph with the memory of the plain step, to be evaluated and not to be run."""
    operations, values = list(captured.graph.operations), list(captured.graph.values)
    _draw_factors(operations, values, captured)
    _hold_inputs(operations, captured)
    _redraw(operations, values, captured)
    return Graph(tuple(operations), tuple(values), captured.graph.forward)


def checkpointed(captured: Captured, graph: Graph) -> Reruns:
    """Return the reruns of the model's own checkpoints."""
    allowed = frozenset(graph.candidates())
    first: dict[int, int] = {}  # First backward operation that reads each value.
    for index in range(graph.forward, len(graph.operations)):
        for value in graph.operations[index].reads:
            first.setdefault(value, index)
    found = []
    for region in captured.checkpoints:
        needed = set(first)
        moments: list[int] = []
        again: list[int] = []
        for index in sorted(region & allowed, reverse=True):
            operation = graph.operations[index]
            if not needed.isdisjoint(operation.writes):
                again.append(index)
                needed.update(operation.reads)
                moments += [first[value] for value in operation.writes if value in first]
        found += [(min(moments), index) for index in again]
    return tuple(sorted(found))


def _redraw(operations: list[Operation], values: list[Value], captured: Captured) -> None:
    """Unpin operators in checkpoints, which PyTorch runs again with restored random generators."""
    for region in captured.checkpoints:
        for index in region:
            operations[index] = replace(operations[index], pinned=False)
            for value in operations[index].writes:
                values[value] = replace(values[value], pinned=False)


def _draw_factors(operations: list[Operation], values: list[Value], captured: Captured) -> None:
    """Give dropout masks on a CPU the size of the result."""
    for index, nodes in enumerate(captured.nodes):
        if operations[index].name == APPLIED and _is_on_cpu(nodes[0]):
            (result,), (mask,) = operations[index].writes, operations[index - 1].writes
            size = values[result].size
            values[mask] = replace(values[mask], size=size)
            operations[index - 1] = replace(operations[index - 1], workspace=size)
            operations[index] = replace(operations[index], workspace=0)
        elif operations[index].name == "aten.native_dropout_backward" and _is_on_cpu(nodes[0]):
            operations[index] = replace(operations[index], workspace=0)


def _hold_inputs(operations: list[Operation], captured: Captured) -> None:
    """Let the last operator of each derivative read all values of the derivative."""
    first = captured.graph.forward
    later = range(first, len(operations))
    for number, group in groupby(later, lambda index: _derivative(captured.nodes[index])):
        ours = list(group)
        if number is None or len(ours) < 2:
            continue
        last = operations[ours[-1]]
        held = {value for index in ours for value in operations[index].reads}
        written = {value for index in ours[:-1] for value in operations[index].writes}
        if _is_custom(captured.nodes[ours[-1]]):
            held -= written  # Python code frees values that it has computed.
        else:
            held |= written
        operations[ours[-1]] = replace(last, reads=tuple(sorted(held)))


def _is_custom(nodes: tuple[fx.Node, ...]) -> bool:
    sources = nodes[0].meta.get("source_fn_stack") or [("", "")]
    return bool(sources[0][1] == "autograd.Function")


def _derivative(nodes: tuple[fx.Node, ...]) -> object:
    """Return autograd's number of the derivative that an operator belongs to, or None."""
    return nodes[0].meta.get("seq_nr") if nodes else None


def _is_on_cpu(node: fx.Node) -> bool:
    return fakes(node.meta["val"])[0].device.type == "cpu"
