"""Conversion of a joint graph and a schedule into a forward and a backward graph.

    forward nodes  |  gradients  operation 5   operation 1 again   operation 6  ...

A rerun is a second copy of an operation's nodes, placed where the schedule has it, in either pass.
Later operations read the newest copy. AOTAutograd's functions then cut the graph between the
passes. Values of the forward pass that the backward graph reads are saved.
"""

from collections import defaultdict

from torch import fx

from pgmo.recompute.capture import dropout
from pgmo.recompute.capture.compat import is_backward, renewed
from pgmo.recompute.capture.graphs import backward_half, graph_module, split_joint
from pgmo.recompute.capture.joint_graph import Captured
from pgmo.recompute.planners.schedule import Schedule, is_made_again
from pgmo.recompute.runtime.announce import ORIGIN
from pgmo.recompute.runtime.offload.host import Host
from pgmo.recompute.runtime.offload.offloaded_values import OffloadedValues


def split(
    captured: Captured, schedule: Schedule, host: Host | None = None
) -> tuple[fx.GraphModule, fx.GraphModule]:
    """Write a schedule into a joint graph; return the forward and the backward graph.

    Returns:
        Two modules, as AOTAutograd expects them from a partition function.
    """
    writer, joint = _written(captured, schedule, host)
    forward, backward = split_joint(joint, list(writer.saved), captured.outputs)
    _prune(forward.graph, of_backward=True)
    _prune(backward.graph, of_backward=False)
    forward.recompile()
    backward.recompile()
    return forward, backward


def backward(captured: Captured, schedule: Schedule, host: Host | None = None) -> fx.GraphModule:
    """Return the backward graph alone; see `split`."""
    writer, joint = _written(captured, schedule, host)
    made = backward_half(joint, list(writer.saved), captured.outputs)
    _prune(made.graph, of_backward=False)
    return made


def _written(
    captured: Captured, schedule: Schedule, host: Host | None
) -> tuple["_Writer", fx.GraphModule]:
    writer = _Writer(captured, schedule, host)
    return writer, graph_module(captured.joint, writer.graph)


def _prune(graph: fx.Graph, of_backward: bool) -> None:
    """Remove the nodes of the other pass that no node of this graph reads.

    Newer versions of PyTorch keep random operators in both graphs, as if they had side effects.
    Fused attention and its inputs would run twice for nothing, and a dropout would draw again.
    """
    for node in reversed(graph.nodes):
        ours = bool(is_backward(node)) != of_backward
        if node.op == "call_function" and not node.users and not ours:
            graph.erase_node(node)


class _Writer:
    def __init__(self, captured: Captured, schedule: Schedule, host: Host | None) -> None:
        self.captured = captured
        self.graph = fx.Graph()
        self.first: dict[fx.Node, fx.Node] = {}  # copies of forward nodes and of inputs
        self.latest: dict[fx.Node, fx.Node] = {}  # newest copies of backward nodes and of reruns
        self.made_again: dict[int, bool] = {}  # value: whether its newest run is in the backward
        self.saved: dict[fx.Node, None] = {}  # a set in the order of addition
        self.backward = False
        self.views: dict[int, list[fx.Node]] = defaultdict(list)  # of each value
        for node in captured.views:
            if node in captured.value_of:
                self.views[captured.value_of[node]].append(node)
        self.module_of = {
            node: captured.graph.operations[index].module
            for index, nodes in enumerate(captured.nodes)
            for node in nodes
        }
        for node in captured.joint.graph.find_nodes(op="placeholder"):
            copies = self.latest if node in captured.backward else self.first
            copies[node] = self.graph.node_copy(node)
        for node in captured.joint.graph.nodes:
            if node.op == "get_attr":
                self.first[node] = self.graph.node_copy(node)
        again: dict[int, list[int]] = defaultdict(list)
        for moment, index in schedule.reruns:
            again[moment].append(index)
        self.offloaded = OffloadedValues.of(self.graph, captured, schedule, host)
        self._forward(again)
        self.backward = True
        for moment in range(captured.graph.forward, len(captured.graph.operations)):
            for index in again[moment]:
                self._once_more(index)
            self._operation(moment, again=False)
        self._finish()

    def _forward(self, again: dict[int, list[int]]) -> None:
        """Write the forward pass. A tuple's items follow it at once, so that it is freed early."""
        begins = {
            nodes[0]: index
            for index, nodes in enumerate(self.captured.nodes[: self.captured.graph.forward])
            if nodes
        }
        for node in self.captured.joint.graph.nodes:
            if node in begins:  # the node itself may be an item, and so have a copy already
                self._send(begins[node])
                for index in again.pop(begins[node], ()):
                    self._once_more(index)
            if node in self.first or node.op != "call_function" or node in self.captured.backward:
                continue
            self._copy_first(node)
            for user in node.users:
                if _is_item(user) and user.args[0] is node and user not in self.captured.backward:
                    self._copy_first(user)
        self._send(self.captured.graph.forward)

    def _send(self, moment: int) -> None:
        """Write the nodes, before an operation, that begin transfers to the host or end them."""
        for made in self.offloaded.send(moment, self.first) if self.offloaded else ():
            self._sign(made, made, "forward")

    def _once_more(self, index: int) -> None:
        if self.offloaded is None or index not in self.offloaded.values:
            self._operation(index, again=True)
            return
        made, value = self.offloaded.fetch(index), self.offloaded.values[index]
        self._place(made, self.captured.root_of[value], again=True)
        if self.backward:
            self.saved[self.offloaded.arena] = None
        self._renew(value)

    def _renew(self, value: int) -> None:
        """Make later reads of a value, and of its views, use its newest result."""
        self.made_again[value] = self.backward
        self.latest.pop(self.captured.root_of[value], None)
        for view in self.views[value]:
            self.latest.pop(view, None)

    def _copy_first(self, node: fx.Node) -> None:
        if node not in self.first:
            inside = _is_item(node) and node not in self.captured.views
            arguments = self.first.__getitem__ if inside else self._read
            self.first[node] = self.graph.node_copy(node, arguments)
            self._sign(self.first[node], node, "forward")

    def _sign(self, made: fx.Node, node: fx.Node, phase: str) -> None:
        made.meta[ORIGIN] = (self.module_of.get(node, ""), phase)

    def _operation(self, index: int, again: bool) -> None:
        nodes = self.captured.nodes[index]
        made: dict[fx.Node, fx.Node] = {}
        if self.captured.graph.operations[index].name == dropout.APPLIED:
            node, x, mask = dropout.parts(nodes[0])
            for one in dropout.apply_again(self.graph, node, self._read(x), self._read(mask)):
                made[nodes[0]] = one
                self._place(one, nodes[0], again)
        else:
            for position, node in enumerate(nodes):
                other = self.captured.replaced(node) if again and position == 0 else {}
                arguments = {
                    one: self._read(other.get(one, one)) if position == 0 else made[one]
                    for one in node.all_input_nodes
                }
                made[node] = self.graph.node_copy(node, arguments.__getitem__)
                self._place(made[node], node, again)
                if other:  # it reads results of its first run, which need storages of their own
                    made[node].meta["val"] = renewed(made[node].meta["val"])
        self.latest.update(made)
        for value in self.captured.graph.operations[index].writes if again else ():
            if is_made_again(self.captured.graph, value):
                self.made_again[value] = self.backward
                for view in self.views[value]:
                    self.latest.pop(view, None)

    def _place(self, made: fx.Node, node: fx.Node, again: bool) -> None:
        self._sign(made, node, "recompute" if again else "backward")
        if again:
            self._tag(made)

    def _tag(self, made: fx.Node) -> None:
        if self.backward:
            made.meta["partitioner_tag"] = "is_backward"
        else:
            made.meta.pop("partitioner_tag", None)

    def _read(self, node: fx.Node) -> fx.Node:
        """Return a node's newest copy: of the forward pass, of a rerun, or of the backward pass."""
        value = self.captured.value_of.get(node)
        arrived = self.offloaded.arrive(value) if self.offloaded is not None else None
        if arrived is not None and value is not None:
            self._place(arrived, self.captured.root_of[value], again=True)
            self.latest[self.captured.root_of[value]] = arrived
        if node not in self.captured.backward:
            if value not in self.made_again:
                if self.backward:
                    self._save(node)
                return self.first[node]
            if self.backward and not self.made_again[value]:
                self._save(node)
        if node not in self.latest:
            # The node is a view of an existing value. It costs nothing, so it is made here.
            self.latest[node] = self.graph.node_copy(node, self._read)
            self._tag(self.latest[node])
        return self.latest[node]

    def _save(self, node: fx.Node) -> None:
        """Save a node for the backward pass, or the value that it is a view of."""
        value = self.captured.value_of.get(node)
        if value is not None and self.captured.graph.values[value].producer >= 0:
            node = self.captured.root_of[value]
        elif node in self.captured.views:
            # Several inputs may share a storage, so save the one that this node views.
            for one in node.all_input_nodes:
                self._save(one)
            return
        if node.op != "get_attr":
            newest = self.latest if value in self.made_again else self.first
            self.saved[newest[node]] = None

    def _finish(self) -> None:
        (last,) = self.captured.joint.graph.find_nodes(op="output")
        (results,) = last.args
        forward = fx.node.map_arg(tuple(results[: self.captured.outputs]), self.first.__getitem__)
        backward = fx.node.map_arg(tuple(results[self.captured.outputs :]), self._read)
        made = self.graph.output((*forward, *backward))
        made.meta.update(last.meta)


def _is_item(node: fx.Node) -> bool:
    return getattr(node.target, "__name__", "") == "getitem"
