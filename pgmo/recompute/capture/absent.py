"""Backward passes in which some outputs get no gradient.

    node            needs gradient of     without the logits' gradient
    nll_backward    loss                  unchanged
    add             loss, logits          replaced by the summand of the loss
    head's weight   logits                None, as in autograd, instead of zeros

Backward passes are linear, so a node that depends only on absent gradients is removed. The
backward pass of a `torch.autograd.Function` need not be linear, and PyTorch calls it with zeros for
absent gradients. So the nodes of a function's backward pass are kept unless all gradients of the
function's outputs are absent.
"""

from collections.abc import Collection, Iterable
from typing import Any

import torch
from torch import Tensor, fx
from torch.autograd.function import BackwardCFunction

from pgmo.recompute.capture.compat import (
    autograd_nodes,
    fakes,
    is_backward,
    is_tangent,
    node_of,
    nodes_from,
    storage_key,
    traced_graph,
)
from pgmo.recompute.capture.graphs import graph_module
from pgmo.recompute.capture.in_place import ADD, ADD_IN_PLACE
from pgmo.recompute.capture.memory_use.costs import example_arguments, update_example
from pgmo.recompute.capture.memory_use.facts import forget_facts

CUSTOM = "pgmo_custom"
"""Key of a node's `meta`: the number of the custom function's call whose backward pass made the
node, and the names of the gradients that this backward pass got."""


def tangents(module: fx.GraphModule) -> list[fx.Node]:
    """Return the tangents of a graph, in order: its inputs that are gradients of outputs."""
    return [node for node in module.graph.find_nodes(op="placeholder") if is_tangent(node)]


def unlikely_gradients(joint: fx.GraphModule) -> frozenset[str]:
    """Return the names of tangents with several elements; none if no tangent has one element."""
    found = tangents(joint)
    losses = {node.name for node in found if node.meta["val"].numel() == 1}
    return frozenset(node.name for node in found if losses and node.name not in losses)


def without(module: fx.GraphModule, absent: Collection[str]) -> fx.GraphModule:
    """Return a joint or backward graph without the tangents named `absent`.

    Nodes that depend only on these tangents are removed. The names of other nodes do not change.
    """
    return _Narrowing(module, absent).made


def narrowed(
    joint: fx.GraphModule, absent: Collection[str]
) -> tuple[fx.GraphModule, list[fx.Node]]:
    """Return the graph of `without`, and forward nodes that only removed backward nodes read."""
    narrowing = _Narrowing(joint, absent)
    gone, kept = (
        {storage_key(one): node for node in nodes for one in fakes(node.meta.get("val"))[:1]}
        for nodes in narrowing.read
    )
    for node in joint.graph.find_nodes(op="placeholder"):
        # Inputs are alive anyway.
        kept |= {storage_key(one): node for one in fakes(node.meta.get("val"))}
    return narrowing.made, [node for key, node in gone.items() if key not in kept]


def keep_alive(narrow: fx.GraphModule, nodes: Iterable[fx.Node]) -> fx.GraphModule:
    """Add reads of `nodes` where the backward pass of a narrowed joint graph begins.

    The forward pass saves these nodes for the absent gradients, so they live until the backward
    pass begins.
    """
    graph = narrow.graph
    copies = {node.name: node for node in graph.nodes}
    first = next(
        (node for node in graph.nodes if node.op == "call_function" and is_backward(node)),
        next(iter(graph.find_nodes(op="output"))),
    )
    place = {node: index for index, node in enumerate(graph.nodes)}
    for node in nodes:
        copy = copies[node.name]
        later = place[copy] >= place[first]
        with graph.inserting_after(copy) if later else graph.inserting_before(first):
            graph.call_function(_kept_alive, (copy,)).meta["partitioner_tag"] = "is_backward"
    return narrow


def _kept_alive(_value: object) -> None:
    """Mark the node at which a saved value is freed. The function never runs."""


fx.node.has_side_effect(_kept_alive)


def remove_kept(backward: fx.GraphModule) -> None:
    """Remove the nodes of `keep_alive` and their otherwise unread inputs from a backward graph."""
    freed: set[fx.Node] = set()
    for node in reversed(backward.graph.nodes):
        if node.target is _kept_alive or (
            node in freed and not node.users and node.op == "call_function"
        ):
            freed.update(node.all_input_nodes)
            backward.graph.erase_node(node)
        elif node in freed and not node.users:
            backward.graph.erase_node(node)  # An unread input would live to the end of the pass.


class _Narrowing:
    """Copy of a graph without absent gradients."""

    def __init__(self, module: fx.GraphModule, absent: Collection[str]) -> None:
        self._graph = fx.Graph()
        self._copies: dict[fx.Node, fx.Node | None] = {}  # None for absent nodes.
        self._zeros: dict[fx.Node, fx.Node] = {}
        self._moved: set[int] = set()  # Storages of sums that one summand has replaced.
        self._borrowed: set[int] = set()  # Storages of summands that have replaced a sum.
        self._laid_out: set[fx.Node] = set()  # Nodes with another layout or storage than before.
        self._after: set[fx.Node] = set()  # Nodes that depend on a tangent.
        # Whether a custom function gets any gradient, by the number of its call.
        self._customs: dict[int, bool] = {}
        names = {node.name: node for node in module.graph.nodes}
        gone: dict[fx.Node, None] = {}
        kept: dict[fx.Node, None] = {}
        for node in module.graph.nodes:
            if is_tangent(node):
                self._after.add(node)
                if node.name in absent:
                    self._copies[node] = None
                    continue
            custom = node.meta.get(CUSTOM)
            given = [one for one in node.all_input_nodes if one in self._after]
            if custom is not None:
                number, gradients = custom
                given += [names[name] for name in gradients if name in names]
            if not given or node.op == "output":
                self._copy(node)
                continue
            self._after.add(node)
            comes = any(self._copies[one] is not None for one in given)
            if custom is not None:
                comes = self._customs.setdefault(number, comes)
            read = [one for one in node.all_input_nodes if one not in self._after]
            (kept if comes else gone).update(dict.fromkeys(read))
            if not comes:
                self._copies[node] = None
            elif not self._is_sum_of_one(node):
                self._copy(node)
        # Forward nodes that the removed and the kept part of the backward pass read.
        self.read = list(gone), list(kept)
        self.made = graph_module(module, self._graph)

    def _is_sum_of_one(self, node: fx.Node) -> bool:
        """Replace a sum by its only present summand; return whether this was possible."""
        if node.target not in (ADD, ADD_IN_PLACE) or node.kwargs or len(node.all_input_nodes) != 2:
            return False
        there = [one for one in node.all_input_nodes if self._copies[one] is not None]
        if len(there) != 1 or there[0].meta["val"].shape != node.meta["val"].shape:
            return False  # None or both summands are present, or the sum broadcasts the only one.
        self._copies[node] = self._copies[there[0]]
        if there[0] in self._laid_out or _metadata(there[0]) != _metadata(node):
            self._laid_out.add(node)
        self._moved.update(storage_key(one) for one in fakes(node.meta["val"]))
        here = storage_key(self._present(node).meta["val"])
        if here != storage_key(node.meta["val"]):
            self._borrowed.add(here)
        return True

    def _copy(self, node: fx.Node) -> None:
        if node.op == "output":
            results = fx.node.map_arg(node.args, self._copies.__getitem__)
            self._graph.output(results[0]).meta.update(node.meta)
        else:
            copy = self._copies[node] = self._graph.node_copy(node, self._present)
            if any(self._has_other_example(one) for one in node.all_input_nodes):
                forget_facts(copy)
            if node.target is ADD_IN_PLACE and self._is_borrowed(copy.args[0]):
                copy.target = ADD
            moved = any(storage_key(one) in self._moved for one in fakes(node.meta.get("val")))
            if moved or not self._laid_out.isdisjoint(node.all_input_nodes):
                self._update_example(node, copy)

    def _update_example(self, node: fx.Node, copy: fx.Node) -> None:
        """Update the example value of a node's copy; keep the old value if it is still right."""
        try:
            update_example(copy)
        except (RuntimeError, ValueError):
            if copy.target is not torch.ops.aten.view.default:
                raise
            copy.target = torch.ops.aten.reshape.default  # As autograd does.
            update_example(copy)
        given = {storage_key(one) for one in fakes(example_arguments(copy))}
        before = node.meta["val"]
        own = given.isdisjoint(storage_key(one) for one in fakes(copy.meta["val"]))
        own &= self._moved.isdisjoint(storage_key(one) for one in fakes(before))
        if own and _metadata(copy) == _metadata(node):
            copy.meta["val"] = before  # Readers of the node need no update.
            return
        self._laid_out.add(node)

    def _is_borrowed(self, node: object) -> bool:
        """Return whether a node's storage belongs to a summand that has replaced a sum."""
        assert isinstance(node, fx.Node)
        return storage_key(node.meta["val"]) in self._borrowed

    def _has_other_example(self, node: fx.Node) -> bool:
        found = self._copies[node] or self._zeros[node]
        return found.meta.get("val") is not node.meta.get("val")

    def _present(self, node: fx.Node) -> fx.Node:
        """Return the copy of a node, or a node of zeros if the node is absent."""
        found = self._copies[node] or self._zeros.get(node)
        if found is None:
            example = node.meta["val"]
            found = self._graph.call_function(
                torch.ops.aten.full.default,
                (list(example.shape), 0),
                {"dtype": example.dtype, "device": example.device, "pin_memory": False},
            )
            found.meta = {**node.meta, "val": example.new_zeros(example.shape)}
            found.meta["partitioner_tag"] = "is_backward"
            forget_facts(found)
            self._zeros[node] = found
        return found


def _metadata(node: fx.Node) -> tuple[object, ...]:
    return tuple((one.shape, one.stride(), one.dtype) for one in fakes(node.meta.get("val")))


def note_autograd_functions(results: Iterable[Tensor]) -> None:
    """Let nodes of custom backward passes get `CUSTOM` when `results` are differentiated."""
    for number, function in enumerate(autograd_nodes(one.grad_fn for one in results)):
        if isinstance(function, BackwardCFunction):
            forward: Any = function._forward_cls  # type: ignore[attr-defined]
            if not getattr(forward, "stands_in", False):
                _note(function, number)


def _note(function: Any, number: int) -> None:
    """Add hooks that mark the nodes traced from the start to the end of a backward function."""
    begun: list[tuple[int, tuple[str, ...]]] = []

    def before(gradients: tuple[Tensor | None, ...]) -> None:
        graph = traced_graph()
        if graph is not None:
            nodes = [None if one is None else node_of(one) for one in gradients]
            begun.append((len(graph.nodes), tuple(node.name for node in nodes if node)))

    def after(results: tuple[Tensor | None, ...], _gradients: object) -> Any:
        graph = traced_graph()
        if graph is None or not begun:
            return None
        first, names = begun.pop()
        # A function may return a saved value unchanged. `alias` adds a node that can be marked.
        own = tuple(None if one is None else torch.ops.aten.alias.default(one) for one in results)
        for node in nodes_from(graph, first):
            node.meta.setdefault(CUSTOM, (number, names))
        return own

    function.register_prehook(before)
    function.register_hook(after)
