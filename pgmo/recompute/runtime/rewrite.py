"""Writes a schedule into a joint graph, and splits it there.

    forward nodes  |  gradients  operation 5   operation 1 again   operation 6  ...

An operation that runs again is a second set of nodes, placed where the schedule has it. What is
left to AOTAutograd is to cut between the passes: what the second part reads of the first is saved.
"""

from torch import fx

from pgmo.recompute.capture import dropout
from pgmo.recompute.capture.compat import is_backward, renewed, split_joint
from pgmo.recompute.capture.joint_graph import Captured
from pgmo.recompute.planners.schedule import Schedule, is_forgotten
from pgmo.recompute.runtime.announce import ORIGIN


def split(captured: Captured, schedule: Schedule) -> tuple[fx.GraphModule, fx.GraphModule]:
    """The forward and the backward graph that together run a schedule.

    Args:
        captured: the joint graph and its operations; the graph stays as it is.
        schedule: of the captured graph.

    Returns:
        Two modules as AOTAutograd wants them from a partition function.
    """
    writer = _Writer(captured, schedule)
    joint = fx.GraphModule(captured.joint, writer.graph)
    forward, backward = split_joint(joint, list(writer.saved), captured.outputs)
    _prune(forward.graph, of_backward=True)
    _prune(backward.graph, of_backward=False)
    forward.recompile()
    backward.recompile()
    return forward, backward


def _prune(graph: fx.Graph, of_backward: bool) -> None:
    """Takes out what belongs to the other half, and what nothing here reads.

    Newer versions of PyTorch leave random operators in, as if they had effects: fused attention
    would be run again for nothing, in the forward half also what it reads, and a dropout would
    draw again.
    """
    for node in reversed(graph.nodes):
        ours = bool(is_backward(node)) != of_backward
        if node.op == "call_function" and not node.users and not ours:
            graph.erase_node(node)


class _Writer:
    def __init__(self, captured: Captured, schedule: Schedule) -> None:
        self.captured = captured
        self.graph = fx.Graph()
        self.first: dict[fx.Node, fx.Node] = {}  # of the forward pass, and what is given
        self.second: dict[fx.Node, fx.Node] = {}  # of the backward pass
        self.saved: dict[fx.Node, None] = {}  # a set in the order of addition
        self.choice = schedule.recomputed
        self.module_of = {
            node: captured.graph.operations[index].module
            for index, nodes in enumerate(captured.nodes)
            for node in nodes
        }
        for node in captured.joint.graph.find_nodes(op="placeholder"):
            copies = self.second if node in captured.backward else self.first
            copies[node] = self.graph.node_copy(node)
        for node in captured.joint.graph.nodes:
            if node.op == "get_attr":
                self.first[node] = self.graph.node_copy(node)
        self._forward()
        for index, again in zip(schedule.operations, schedule.again, strict=True):
            if again:
                self._operation(int(index), again=True)
            elif index >= captured.graph.forward:
                self._operation(int(index), again=False)
        self._finish()

    def _forward(self) -> None:
        """Items are taken from a tuple at once: it would keep all of them alive."""
        for node in self.captured.joint.graph.nodes:
            if node in self.first or node.op != "call_function" or node in self.captured.backward:
                continue
            self._copy_first(node)
            for user in node.users:
                if _is_item(user) and user.args[0] is node and user not in self.captured.backward:
                    self._copy_first(user)

    def _copy_first(self, node: fx.Node) -> None:
        if node not in self.first:
            self.first[node] = self.graph.node_copy(node, self.first.__getitem__)
            self._sign(self.first[node], node, "forward")

    def _sign(self, made: fx.Node, node: fx.Node, phase: str) -> None:
        made.meta[ORIGIN] = (self.module_of.get(node, ""), phase)

    def _operation(self, index: int, again: bool) -> None:
        nodes = self.captured.nodes[index]
        if self.captured.graph.operations[index].name == dropout.APPLIED:
            node, x, mask = dropout.parts(nodes[0])
            read = (self._of_backward(x), self._of_backward(mask))
            for made in dropout.apply_again(self.graph, node, *read):
                self._sign(made, nodes[0], "recompute")
                self.second[nodes[0]] = made
            return
        for position, node in enumerate(nodes):
            other = self.captured.replaced(node) if again and position == 0 else {}
            arguments = {
                one: self._of_backward(other.get(one, one)) if position == 0 else self.second[one]
                for one in node.all_input_nodes
            }
            made = self.graph.node_copy(node, arguments.__getitem__)
            self._sign(made, node, "recompute" if again else "backward")
            if again:
                made.meta["partitioner_tag"] = "is_backward"
            if other:  # it is given what it has made the first time
                made.meta["val"] = renewed(made.meta["val"])
            self.second[node] = made

    def _of_backward(self, node: fx.Node) -> fx.Node:
        """The node that the backward pass reads for a node: saved, computed again, or its own."""
        value = self.captured.value_of.get(node)
        pinned = value is not None and not is_forgotten(self.captured.graph, self.choice, value)
        if node not in self.captured.backward and (value is None or pinned):
            self._save(node)
            return self.first[node]
        if node not in self.second:
            # A view of what is there already: it costs nothing and is made where it is needed.
            self.second[node] = self.graph.node_copy(node, self._of_backward)
            self.second[node].meta["partitioner_tag"] = "is_backward"
        return self.second[node]

    def _save(self, node: fx.Node) -> None:
        """Hands the backward pass what a node is a view of."""
        value = self.captured.value_of.get(node)
        if value is not None and self.captured.graph.values[value].producer >= 0:
            node = self.captured.root_of[value]
        elif node in self.captured.views:
            # Several inputs may share a storage: it is the one that is looked at that is needed.
            for one in node.all_input_nodes:
                self._save(one)
            return
        if node.op != "get_attr":
            self.saved[self.first[node]] = None

    def _finish(self) -> None:
        (last,) = self.captured.joint.graph.find_nodes(op="output")
        (results,) = last.args
        forward = fx.node.map_arg(tuple(results[: self.captured.outputs]), self.first.__getitem__)
        backward = fx.node.map_arg(tuple(results[self.captured.outputs :]), self._of_backward)
        made = self.graph.output((*forward, *backward))
        made.meta.update(last.meta)


def _is_item(node: fx.Node) -> bool:
    return getattr(node.target, "__name__", "") == "getitem"
