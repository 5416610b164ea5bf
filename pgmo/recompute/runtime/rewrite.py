"""Conversion of a joint graph and a schedule into a forward and a backward graph.

    forward graph     inputs   operation 0   1   2   3   4
    backward graph    saved values   tangents   operation 5   1 again   6   7  ...

A rerun is another copy of an operation's nodes. Later operations read the newest copy. Values that
the backward graph reads are saved. Views of saved values are made again.
"""

from collections import defaultdict

from torch import fx

from pgmo.recompute.capture import dropout
from pgmo.recompute.capture.compat import flatten, renewed
from pgmo.recompute.capture.graphs import graph_module
from pgmo.recompute.capture.joint_graph import Captured
from pgmo.recompute.planners.schedule import Schedule, is_made_again
from pgmo.recompute.runtime.announce import ORIGIN
from pgmo.recompute.runtime.offload.host import HostArenas
from pgmo.recompute.runtime.offload.offloaded_values import OffloadedValues


def split(
    captured: Captured, schedule: Schedule, host: HostArenas
) -> tuple[fx.GraphModule, fx.GraphModule]:
    """Return the forward and the backward graph of a scheduled step.

    `host` is the memory for offloaded values.
    """
    writer = _Writer(captured, schedule, host)
    joint = captured.joint
    return graph_module(joint, writer.forward), graph_module(joint, writer.backward)


def backward(captured: Captured, schedule: Schedule, host: HostArenas) -> fx.GraphModule:
    """Return the backward graph of `split`, without unread inputs."""
    graph = _Writer(captured, schedule, host).backward
    _erase(graph, [node for node in graph.find_nodes(op="placeholder") if not node.users])
    return graph_module(captured.joint, graph)


class _Writer:
    def __init__(self, captured: Captured, schedule: Schedule, host: HostArenas) -> None:
        self.captured = captured
        self.forward, self.backward = fx.Graph(), fx.Graph()
        self._graph = self.forward  # The graph that is being written.
        self._first: dict[fx.Node, fx.Node] = {}  # First copies of inputs and forward nodes.
        self._latest: dict[fx.Node, fx.Node] = {}  # Newest copies, without those in `_first`.
        self._made_again: set[int] = set()  # Values computed again or fetched in the forward pass.
        self._views: dict[int, list[fx.Node]] = defaultdict(list)  # Views of each value.
        for node in captured.views:
            if node in captured.value_of:
                self._views[captured.value_of[node]].append(node)
        self._module_of = {
            node: captured.graph.operations[index].module
            for index, nodes in enumerate(captured.nodes)
            for node in nodes
        }
        again: dict[int, list[int]] = defaultdict(list)
        for moment, index in schedule.reruns:
            again[moment].append(index)
        for node in captured.joint.graph.nodes:
            is_input = node.op == "placeholder" and node not in captured.backward
            if is_input or node.op == "get_attr":
                self._first[node] = self.forward.node_copy(node)
        self._offloaded = OffloadedValues(self.forward, captured, schedule, host)
        self._write_forward(again)
        saved = self._begin_backward()
        for moment in range(captured.graph.forward, len(captured.graph.operations)):
            for index in again[moment]:
                self._once_more(index)
            self._operation(moment, again=False)
        self._finish(saved)

    def _write_forward(self, again: dict[int, list[int]]) -> None:
        """Write the forward pass; `getitem` nodes directly follow their tuple, to free it early."""
        begins = {
            nodes[0]: index
            for index, nodes in enumerate(self.captured.nodes[: self.captured.graph.forward])
            if nodes
        }
        for node in self.captured.joint.graph.nodes:
            if node in begins:  # Also if the node has a copy already, as `getitem` nodes may.
                self._send(begins[node])
                for index in again.pop(begins[node], ()):
                    self._once_more(index)
            if node in self._first or node.op != "call_function" or node in self.captured.backward:
                continue
            self._copy_first(node)
            for user in node.users:
                if _is_item(user) and user.args[0] is node and user not in self.captured.backward:
                    self._copy_first(user)
        self._send(self.captured.graph.forward)
        for value in tuple(self._offloaded.in_flight):
            self._arrive(value)

    def _begin_backward(self) -> dict[fx.Node, fx.Node]:
        """Add an input for each value that may be saved; return the inputs by forward node."""
        newest = {
            node: copy
            for node, copy in (self._first | self._latest).items()
            if node not in self.captured.views and node.op != "get_attr"
        }
        self._graph, self._latest = self.backward, {}
        saved: dict[fx.Node, fx.Node] = {}
        for node, copy in newest.items():
            self._latest[node] = saved[copy] = self._input(copy)
        arena = self._offloaded.arena
        if arena is not None:
            saved[arena] = self._input(arena)
            self._offloaded.continue_in(self.backward, saved[arena])
        for node in self.captured.joint.graph.find_nodes(op="placeholder"):
            if node in self.captured.backward:
                self._latest[node] = self.backward.node_copy(node)
        return saved

    def _input(self, copy: fx.Node) -> fx.Node:
        made = self.backward.placeholder(copy.name)
        made.meta = dict(copy.meta)
        return made

    def _finish(self, saved: dict[fx.Node, fx.Node]) -> None:
        (last,) = self.captured.joint.graph.find_nodes(op="output")
        results, outputs = flatten(last.args)[0], self.captured.outputs
        read = tuple(one if one is None else self._read(one) for one in results[outputs:])
        _end(self.backward, read)
        kept = [copy for copy, node in saved.items() if node.users]
        _erase(self.backward, [node for node in saved.values() if not node.users])
        made = (one if one is None else self._first[one] for one in results[:outputs])
        _end(self.forward, (*made, *kept))

    def _send(self, moment: int) -> None:
        """Write the nodes before operation `moment` that begin or end transfers to the host."""
        for made in self._offloaded.send(moment, self._first):
            self._set_origin(made, made, "forward")

    def _once_more(self, index: int) -> None:
        if index not in self._offloaded.values:
            self._operation(index, again=True)
            return
        made, value = self._offloaded.fetch(index), self._offloaded.values[index]
        self._set_origin(made, self.captured.root_of[value], "recompute")
        self._use_newest_copy(value)

    def _arrive(self, value: int) -> None:
        """Write the node that waits for a fetched value, if its fetch is in progress."""
        made = self._offloaded.arrive(value)
        if made is not None:
            root = self.captured.root_of[value]
            self._set_origin(made, root, "recompute")
            self._latest[root] = made

    def _use_newest_copy(self, value: int) -> None:
        """Forget the copies of a value's views: the next read makes them from the newest copy."""
        if self._graph is self.forward:
            self._made_again.add(value)
        for view in self._views[value]:
            self._latest.pop(view, None)

    def _copy_first(self, node: fx.Node) -> None:
        if node not in self._first:
            inside = _is_item(node) and node not in self.captured.views
            arguments = self._first.__getitem__ if inside else self._read
            self._first[node] = self.forward.node_copy(node, arguments)
            self._set_origin(self._first[node], node, "forward")

    def _set_origin(self, made: fx.Node, node: fx.Node, phase: str) -> None:
        made.meta[ORIGIN] = (self._module_of.get(node, ""), phase)

    def _operation(self, index: int, again: bool) -> None:
        nodes, operation = self.captured.nodes[index], self.captured.graph.operations[index]
        phase = "recompute" if again else "backward"
        made: dict[fx.Node, fx.Node] = {}
        if operation.name == dropout.APPLIED:
            node, x, mask = dropout.parts(nodes[0])
            for one in dropout.apply_again(self._graph, node, self._read(x), self._read(mask)):
                made[nodes[0]] = one
                self._set_origin(one, nodes[0], phase)
        else:
            for position, node in enumerate(nodes):
                other = self.captured.replaced(node) if again and position == 0 else {}
                arguments = {
                    one: self._read(other.get(one, one)) if position == 0 else made[one]
                    for one in node.all_input_nodes
                }
                made[node] = self._graph.node_copy(node, arguments.__getitem__)
                self._set_origin(made[node], node, phase)
                # A batch normalization that runs again reads the running statistics that its first
                # run returned, so its own results need new storages.
                if other:
                    made[node].meta["val"] = renewed(made[node].meta["val"])
        if not again:
            self._latest.update(made)
            return
        for value in operation.writes:
            if is_made_again(self.captured.graph, value):
                self._use_newest_copy(value)
                root = self.captured.root_of.get(value)
                if root is not None:
                    self._latest[root] = made[root]

    def _read(self, node: fx.Node) -> fx.Node:
        """Return a node's newest copy in the graph that is being written."""
        value = self.captured.value_of.get(node)
        if value is not None:
            self._arrive(value)
        if self._graph is self.forward and value not in self._made_again:
            return self._first[node]
        if node not in self._latest:
            # The node is a view of an existing value, and takes no memory.
            self._latest[node] = self._graph.node_copy(node, self._read)
        return self._latest[node]


def _end(graph: fx.Graph, results: tuple[fx.Node | None, ...]) -> None:
    """Write the output of a graph, and erase nodes that nothing reads."""
    graph.output(results)
    for node in reversed(graph.nodes):
        if node.op == "call_function" and not node.users and not node.is_impure():
            graph.erase_node(node)


def _erase(graph: fx.Graph, nodes: list[fx.Node]) -> None:
    for node in nodes:
        graph.erase_node(node)


def _is_item(node: fx.Node) -> bool:
    return getattr(node.target, "__name__", "") == "getitem"
