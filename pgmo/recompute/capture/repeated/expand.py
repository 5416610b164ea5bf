"""Expansion of stand-in operators to copies of a traced block's nodes.

A block is a repeated submodule. One block is traced. A stand-in operator replaces each of the
others.

block(x2, w2)     ->    norm  mul  sum  gelu ...      of x2 and w2
backward(g2)      ->    gelu_backward  mm ...         of g2 and the values above
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, fx
from torch._subclasses.fake_tensor import FakeTensor

from pgmo.recompute.capture.absent import CUSTOM
from pgmo.recompute.capture.compat import fakes, is_backward, metadata, storage_key
from pgmo.recompute.capture.memory_use.facts import share_facts
from pgmo.recompute.capture.repeated.stand_in import BACKWARD, BLOCK, StandIn, stand_in
from pgmo.recompute.capture.repeated.template import NotAlikeError, Template, TensorMetadata

_FAR = 1 << 32  # Larger than any `seq_nr`, autograd's number of a derivative.


def expand(joint: fx.GraphModule) -> int:
    """Expand all stand-in operators of a graph; return their number.

    Raises:
        NotAlikeError: if blocks differ or cannot be copied. Then the graph is unusable.
    """
    graph = joint.graph
    calls = graph.find_nodes(op="call_function", target=BLOCK)
    backward = {
        node.args[1]: node for node in graph.find_nodes(op="call_function", target=BACKWARD)
    }
    names = {node.name: node for node in graph.nodes} if calls else {}
    share_facts(graph.nodes)
    originals: dict[int, _Original] = {}
    results: list[fx.Node] = []
    written: dict[fx.Node, fx.Node] = {}  # Replacements of the stand-ins' results.
    for count, node in enumerate(calls, 1):
        number = node.args[1]
        assert isinstance(number, int)
        one = stand_in(number)
        original = originals.get(id(one.template))
        if original is None:
            original = originals[id(one.template)] = _Original(one.template, names)
            results += original.results
        if number not in backward:
            raise NotAlikeError(f"{one.path} is not differentiated")
        results += _Copy(original, one, count, written).write(node, backward[number])
    for node in results:
        _remove_view(node)
    return len(calls)


def _remove_view(node: fx.Node) -> None:
    """Remove a view with the layout of its source.

    Outputs of a captured graph that are views cannot be changed in place.
    """
    source = node.args[0] if node.target is torch.ops.aten.view.default else None
    if isinstance(source, fx.Node) and metadata(source.meta["val"]) == metadata(node.meta["val"]):
        node.replace_all_uses_with(source)
        node.graph.erase_node(node)


class _Original:
    """Nodes of the traced block, found by name and checked."""

    def __init__(self, template: Template, names: dict[str, fx.Node]) -> None:
        def nodes(of: Iterable[str]) -> list[fx.Node]:
            return [names[name] for name in of if name in names]  # Unread nodes were removed.

        self.path = template.path
        self.forward, self.backward = nodes(template.forward), nodes(template.backward)
        try:
            self.inputs = [names[name] for name in template.inputs]
            self.results = [names[name] for name in template.results]
            self.tangents = [None if name is None else names[name] for name in template.tangents]
            self.gradients = [None if one is None else names[one[0]] for one in template.gradients]
        except KeyError as error:
            raise NotAlikeError(f"{self.path}: {error} is not in the graph") from None
        known = {*self.inputs, *(one for one in self.tangents if one is not None)}
        for node in (*self.forward, *self.backward):
            is_copyable = node.op == "call_function" or _is_constant(node)
            if not is_copyable or not known.issuperset(node.all_input_nodes):
                raise NotAlikeError(
                    f"{self.path}: {node.name} cannot be copied, or reads an outside value"
                )
            if CUSTOM in node.meta:
                raise NotAlikeError(f"{self.path}: {node.name} belongs to a custom function")
            known.add(node)
        self._refuse_leaks()
        _refuse_others(self.path, self.inputs, self.gradients, {*self.forward})
        _refuse_shared(self.path, self.inputs, self.results, self.forward)
        made = [one for one in self.gradients if one is not None]
        given = [*self.inputs, *(one for one in self.tangents if one is not None), *self.results]
        _refuse_shared(self.path, given, made, self.backward)

    def _refuse_leaks(self) -> None:
        """Raise NotAlikeError if outside nodes read inner values of the block."""
        results, made = {*self.results}, {*self.gradients}
        inside = {*self.forward, *self.backward}
        for node in inside:
            if node not in results and node not in made and not inside.issuperset(node.users):
                raise NotAlikeError(f"{self.path}: {node.name} is read outside of the block")


def _is_constant(node: fx.Node) -> bool:
    """Return whether a node is a constant tensor, such as `torch.tensor([])` in a block.

    Alike blocks have equal constants, because they have equal operators and arguments.
    """
    module = node.graph.owning_module
    return node.op == "get_attr" and isinstance(getattr(module, str(node.target), None), Tensor)


def _refuse_others(
    path: str,
    given: list[fx.Node],
    made: Iterable[object],
    inside: set[fx.Node],
) -> None:
    # The gradients of inputs that other nodes read would be added up in another order.
    for node, gradient in zip(given, made, strict=True):
        if gradient is None:
            continue
        others = [one for one in node.users if not is_backward(one) and one not in inside]
        if any(one.op == "call_function" for one in others):
            raise NotAlikeError(f"{path}: outside nodes read {node.name}, too")


def _refuse_shared(
    path: str, given: list[fx.Node], results: list[fx.Node], inside: list[fx.Node]
) -> None:
    """Raise NotAlikeError for results that share memory: a stand-in's results do not share any."""
    known = {storage_key(one) for node in given for one in fakes(node.meta["val"])}
    ours = {*inside}
    for node in results:
        example = node.meta["val"]
        fills = example.storage_offset() == 0
        fills &= example.untyped_storage().nbytes() == TensorMetadata.of(example).made_bytes()
        if node not in ours or storage_key(example) in known or not fills:
            raise NotAlikeError(f"{path}: {node.name} shares memory")
        known.add(storage_key(example))


class Storages:
    """One-to-one map from storages of originals to storages of copies.

    Example:
        >>> storages = Storages()
        >>> one = torch.empty(4)
        >>> storages.same(one, other := torch.empty(4)), storages.same(one[1:], torch.empty(4)[1:])
        (True, False)
    """

    def __init__(self) -> None:
        self._of: dict[int, torch.UntypedStorage] = {}
        self._stand_for: dict[int, int] = {}

    def same(self, one: Tensor, other: Tensor) -> bool:
        """Map the storage of `one` to the storage of `other`; return whether this is one-to-one."""
        ours, theirs = storage_key(one), storage_key(other)
        known = self._of.setdefault(ours, other.untyped_storage())
        return id(known) == theirs and self._stand_for.setdefault(theirs, ours) == ours

    def copy(self, one: Tensor) -> Tensor:
        """Return a fake tensor of the same layout in the mapped storage, which may be new."""
        key = storage_key(one)
        storage = self._of.get(key)
        if storage is None:
            size = one.untyped_storage().nbytes()
            storage = torch.UntypedStorage(size, device="meta")  # type: ignore[no-untyped-call]
            self._of[key] = storage
        if not isinstance(one, FakeTensor):
            raise TypeError(f"a {type(one).__name__} has contents")
        plain = torch.empty(0, dtype=one.dtype, device="meta")
        plain.set_(storage, one.storage_offset(), one.shape, one.stride())
        return FakeTensor(one.fake_mode, plain, one.device)


class _Copy:
    """Writer of one copy of the traced block, in place of a stand-in."""

    def __init__(
        self, original: _Original, one: StandIn, number: int, written: dict[fx.Node, fx.Node]
    ) -> None:
        self._original, self._one, self._far = original, one, number * _FAR
        self._written = written
        self._nodes: dict[fx.Node, fx.Node] = {}
        self._storages = Storages()

    def write(self, forward: fx.Node, backward: fx.Node) -> list[fx.Node]:
        """Write the copy; return the nodes of the block's results."""
        original = self._original
        given = list(_nodes(forward.args[0]))
        self._map(original.inputs, given)
        _refuse_others(self._one.path, given, original.gradients, {forward})
        self._write(forward, original.forward, original.results)
        came = [one for one in original.tangents if one is not None]
        self._map(came, list(_nodes(backward.args[0])))
        made = [one for one in original.gradients if one is not None]
        self._write(backward, original.backward, made)
        return [self._nodes[one] for one in original.results]

    def _map(self, ours: list[fx.Node], theirs: list[fx.Node]) -> None:
        if len(ours) != len(theirs):
            raise NotAlikeError(f"{self._one.path} has other inputs")
        for one, other in zip(map(self._replacement, ours), theirs, strict=True):
            mine, its = one.meta["val"], other.meta["val"]
            is_consistent = self._nodes.setdefault(one, other) is other
            alike = metadata(mine) == metadata(its) and is_consistent
            if not alike or not self._storages.same(mine, its):
                raise NotAlikeError(f"{self._one.path} has other inputs")

    def _replacement(self, node: fx.Node) -> fx.Node:
        return self._written.get(node, node)

    def _write(self, at: fx.Node, nodes: list[fx.Node], results: list[fx.Node]) -> None:
        items = {user.args[1]: user for user in at.users}
        if len(items) != len(at.users):
            raise NotAlikeError(f"{self._one.path}: a result is taken twice")
        for place, node in enumerate(results):
            item = items.get(place)
            if item is not None and not self._storages.same(node.meta["val"], item.meta["val"]):
                raise NotAlikeError(f"{self._one.path} shares memory")
        graph = at.graph
        with graph.inserting_before(at):
            for node in nodes:
                copy = self._nodes[node] = graph.node_copy(node, self._nodes.__getitem__)
                copy.meta = self._meta(node)
        for item in items.values():
            number = item.args[1]
            assert isinstance(number, int)
            made = self._written[item] = self._nodes[results[number]]
            item.replace_all_uses_with(made)
            if item in self._nodes:  # This result is also an input of the traced block.
                self._nodes[made] = self._nodes[item]
            graph.erase_node(item)
        graph.erase_node(at)

    def _meta(self, node: fx.Node) -> dict[str, Any]:
        meta = dict(node.meta)
        meta["val"] = self._example(meta.get("val"))
        if isinstance(meta.get("seq_nr"), int):
            meta["seq_nr"] += self._far
        stack = meta.get("nn_module_stack") or {}
        meta["nn_module_stack"] = {
            key: (self._path(path), *kind) for key, (path, *kind) in stack.items()
        }
        return meta

    def _path(self, path: str) -> str:
        before = self._original.path
        return self._one.path + path[len(before) :] if path.startswith(before) else path

    def _example(self, example: Any) -> Any:
        if isinstance(example, Tensor):
            return self._storages.copy(example)
        if isinstance(example, (tuple, list)):
            return type(example)(map(self._example, example))
        return example


def _nodes(argument: object) -> Iterable[fx.Node]:
    for one in argument if isinstance(argument, (list, tuple)) else ():
        assert isinstance(one, fx.Node)
        yield one
