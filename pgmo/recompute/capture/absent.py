"""Backward pass if some outputs are not differentiated.

    gradients of   loss   logits          of the loss alone
    nll_backward   x                      x
    add            x      x               the gradient that exists, without a sum
    head's weight         x               None, as in autograd, instead of zeros

Backward passes are linear: a node that depends only on absent gradients is absent, too. The code of
a `torch.autograd.Function` need not be linear, and PyTorch calls it with zeros for absent
gradients, so its nodes stay or go together.
"""

from collections.abc import Collection, Iterable
from typing import Any

import torch
from torch import Tensor, fx
from torch.autograd.function import BackwardCFunction

from pgmo.recompute.capture.compat import (
    fakes,
    is_backward,
    is_tangent,
    node_of,
    storage_key,
    traced_graph,
)
from pgmo.recompute.capture.graphs import graph_module, mark_nodes
from pgmo.recompute.capture.in_place import ADD, ADD_IN_PLACE
from pgmo.recompute.capture.memory_use.costs import example_arguments
from pgmo.recompute.capture.memory_use.facts import forget_facts

CUSTOM = "pgmo_custom"
"""Key of a node's `meta`: number of the custom function's call whose backward pass made the node,
and the names of the nodes that are the gradients passed to it."""


def tangents(module: fx.GraphModule) -> list[fx.Node]:
    """Return the gradients of the outputs, in order."""
    return [node for node in module.graph.find_nodes(op="placeholder") if is_tangent(node)]


def unlikely_gradients(joint: fx.GraphModule) -> frozenset[str]:
    """Return the gradients that rarely exist: those of outputs other than a scalar loss."""
    found = tangents(joint)
    losses = {node.name for node in found if node.meta["val"].numel() == 1}
    return frozenset(node.name for node in found if losses and node.name not in losses)


def without(module: fx.GraphModule, absent: Collection[str]) -> fx.GraphModule:
    """Return a joint or backward graph in which some gradients of outputs are absent.

    The forward pass and the names of nodes stay.
    """
    return _Narrowing(module, absent).made


def narrowed(
    joint: fx.GraphModule, absent: Collection[str]
) -> tuple[fx.GraphModule, list[fx.Node]]:
    """Return the graph of `without`, and the nodes that its backward pass no longer reads."""
    narrowing = _Narrowing(joint, absent)
    gone, kept = (
        {storage_key(one): node for node in nodes for one in fakes(node.meta.get("val"))[:1]}
        for nodes in narrowing.read
    )
    for node in joint.graph.find_nodes(op="placeholder"):
        kept |= {storage_key(one): node for one in fakes(node.meta.get("val"))}  # there anyway
    return narrowing.made, [node for key, node in gone.items() if key not in kept]


def keep_alive(narrow: fx.GraphModule, nodes: Iterable[fx.Node]) -> fx.GraphModule:
    """Make a narrowed joint graph keep what the whole one saves, until its backward pass begins.

    Both have the same forward pass, so what it saves for absent gradients is freed with the rest.
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
    """Mark the place at which a saved value is freed; it never runs."""


fx.node.has_side_effect(_kept_alive)


def remove_kept(backward: fx.GraphModule) -> None:
    """Remove the nodes of `keep_alive` from a backward graph, and nodes that only they read."""
    freed: set[fx.Node] = set()
    for node in reversed(backward.graph.nodes):
        if node.target is _kept_alive or (
            node in freed and not node.users and node.op == "call_function"
        ):
            freed.update(node.all_input_nodes)
            backward.graph.erase_node(node)
        elif node in freed and not node.users:
            backward.graph.erase_node(node)  # An unread input would live to the end.


class _Narrowing:
    def __init__(self, module: fx.GraphModule, absent: Collection[str]) -> None:
        self._graph = fx.Graph()
        self._copies: dict[fx.Node, fx.Node | None] = {}  # None for absent nodes.
        self._zeros: dict[fx.Node, fx.Node] = {}
        self._moved: set[int] = set()  # Storages of sums that have been replaced by a summand.
        self._borrowed: set[int] = set()  # Storages of these summands, which others may read.
        self._laid_out: set[fx.Node] = set()  # Nodes with another layout than in the whole graph.
        self._after: set[fx.Node] = set()  # Nodes that depend on the gradient of an output.
        self._customs: dict[int, bool] = {}  # Whether a custom function gets any gradient.
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
        self.read = list(gone), list(kept)
        self.made = graph_module(module, self._graph)

    def _is_sum_of_one(self, node: fx.Node) -> bool:
        """Use the only present summand as the sum; return whether that was possible."""
        if node.target not in (ADD, ADD_IN_PLACE) or node.kwargs or len(node.all_input_nodes) != 2:
            return False
        there = [one for one in node.all_input_nodes if self._copies[one] is not None]
        if len(there) != 1 or there[0].meta["val"].shape != node.meta["val"].shape:
            return False  # The other one is broadcast.
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
        """Compute a node's example value again, because one of its inputs has moved or changed."""
        forget_facts(copy)
        arguments, keywords = example_arguments(copy)
        assert callable(copy.target)
        try:
            copy.meta["val"] = copy.target(*arguments, **keywords)
        except (RuntimeError, ValueError):
            if copy.target is not torch.ops.aten.view.default:
                raise
            copy.target = torch.ops.aten.reshape.default  # As autograd does.
            copy.meta["val"] = copy.target(*arguments, **keywords)
        given = {storage_key(one) for one in fakes((arguments, keywords))}
        before = node.meta["val"]
        own = given.isdisjoint(storage_key(one) for one in fakes(copy.meta["val"]))
        own &= self._moved.isdisjoint(storage_key(one) for one in fakes(before))
        if own and _metadata(copy) == _metadata(node):
            copy.meta["val"] = before  # So its readers stay as they are.
            return
        self._laid_out.add(node)  # Its readers are updated, too.

    def _is_borrowed(self, node: object) -> bool:
        """Return whether another node may read the same gradient, or it is expanded."""
        assert isinstance(node, fx.Node)
        return storage_key(node.meta["val"]) in self._borrowed

    def _has_other_example(self, node: fx.Node) -> bool:
        """Return whether the node that replaces this one has another example value."""
        found = self._copies[node] or self._zeros[node]
        return found.meta.get("val") is not node.meta.get("val")

    def _present(self, node: fx.Node) -> fx.Node:
        """Return the copy of a node, or zeros for an absent one that another operator reads."""
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
    """Mark the nodes that backward passes of custom functions add to a graph being traced.

    `results` are those of the forward pass that is being traced.
    """
    stack: list[Any] = [one.grad_fn for one in results if one.grad_fn is not None]
    seen = set(stack)
    while stack:
        function = stack.pop()
        if isinstance(function, BackwardCFunction) and not _stands_in(function):
            _note(function, len(seen))
        for following, _ in function.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                stack.append(following)


def _stands_in(function: Any) -> bool:
    """Return whether the node belongs to a stand-in operator of pgmo, which is expanded later."""
    return getattr(function._forward_cls, "stands_in", False) is True


def _note(function: Any, number: int) -> None:
    begun: list[tuple[int, tuple[str, ...]]] = []

    def before(gradients: tuple[Tensor | None, ...]) -> None:
        graph = traced_graph()
        if graph is not None:
            nodes = [None if one is None else node_of(one) for one in gradients]
            begun.append((len(graph.nodes), tuple(node.name for node in nodes if node)))

    def after(results: tuple[Tensor | None, ...], _gradients: object) -> Any:
        if not begun:
            return None
        first, names = begun.pop()
        # A saved value that is returned unchanged needs a node, too.
        own = tuple(None if one is None else torch.ops.aten.alias.default(one) for one in results)
        mark_nodes(first, CUSTOM, (number, names))
        return own

    function.register_prehook(before)
    function.register_hook(after)
