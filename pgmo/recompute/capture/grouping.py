"""Grouping of a joint graph's nodes into operations, values and views.

A value is a storage. Fake tensors, with which nodes were traced, share storages exactly as the real
tensors do.
"""

import operator
from dataclasses import dataclass, field

import torch
from torch import Tensor, fx

from pgmo.errors import GraphError
from pgmo.recompute.capture import dropout
from pgmo.recompute.capture.compat import fakes, flatten, is_backward, is_tangent, storage_key

SMALL = 64 * 1024
"""Maximum bytes of a result that is saved and never recomputed, such as a normalization's
statistics. Larger results, and an operator's first result, may be recomputed."""

TANGENT = -2
"""Producer of tangents, the outputs' gradients, until `capture` adds an operation for them."""


@dataclass(slots=True)
class Draft:
    """Operation under construction."""

    node: fx.Node
    writes: list[int]
    backward: bool
    applies: bool = False  # The operation applies the mask of a dropout.
    reads: set[int] = field(default_factory=set)
    items: list[fx.Node] = field(default_factory=list)


class Grouping:
    """Operations, values and views of a joint graph, from which `capture` makes a `Captured`."""

    def __init__(self, joint: fx.GraphModule, alignment: int) -> None:
        self.joint, self.alignment = joint, alignment
        self.sizes: list[int] = []  # Bytes, rounded up to multiples of `alignment`.
        self.producers: list[int] = []
        self.pinned: list[bool] = []
        self.values: dict[int, int] = {}  # By storage key.
        self.value_of: dict[fx.Node, int] = {}
        self.root_of: dict[int, fx.Node] = {}
        self.drafts: list[Draft] = []
        self.draft_of: dict[fx.Node, int] = {}
        self.views: set[fx.Node] = set()
        self.backward: set[fx.Node] = set()
        self.tangents: list[int] = []
        begun = False
        for node in joint.graph.nodes:
            if is_tangent(node):
                self.backward.add(node)
                self.tangents += self._new_values(node, TANGENT, alone=True)
        for node in joint.graph.nodes:
            if node.op in ("placeholder", "get_attr"):
                if not is_tangent(node):
                    self._new_values(node, -1, alone=True)
            elif node.op == "call_function":
                marked = is_backward(node)
                after = begun or any(one in self.backward for one in node.all_input_nodes)
                begun = after if marked is None else begun or marked
                if begun:
                    self.backward.add(node)
                self._add(node)

    def _new_values(self, node: fx.Node, producer: int, alone: bool = False) -> list[int]:
        example = node.meta.get("val")
        if example is not None and not isinstance(example, (Tensor, tuple, list)):
            if alone and isinstance(example, (torch.SymInt, torch.SymFloat)):
                raise GraphError(
                    "the graph has sizes that are not fixed; capture it for the sizes of an "
                    "example, or with torch.compile(dynamic=False)"
                )
            return []
        found = []
        for position, one in enumerate(_tensors(example)):
            if one is None:
                continue
            storage = one.untyped_storage()
            key = storage_key(one)
            if key in self.values:
                continue
            index = len(self.sizes)
            size = int(storage.nbytes())
            self.values[key] = index
            self.sizes.append(-(-size // self.alignment) * self.alignment)
            self.producers.append(producer)
            self.pinned.append(position > 0 and size <= SMALL)
            found.append(index)
        if found and isinstance(example, Tensor):
            self.root_of[found[0]] = node
        self._note(node)
        return found

    def _note(self, node: fx.Node) -> None:
        for one in fakes(node.meta.get("val"))[:1]:
            self.value_of[node] = self.values[storage_key(one)]

    def _add(self, node: fx.Node) -> None:
        if node.target is operator.getitem:
            source = node.args[0]
            assert isinstance(source, fx.Node)
            self._note(node)
            if source in self.draft_of:
                number = self.draft_of[source]
                self.draft_of[node] = number
                self.drafts[number].items.append(node)
                value = self.value_of.get(node)
                if value is not None:
                    self.root_of.setdefault(value, node)
            else:
                self.views.add(node)
            return
        made = self._new_values(node, len(self.drafts))
        if not made and node in self.value_of and not has_effect(node):
            self.views.add(node)
            return
        if not made and not fakes(node.meta.get("val")) and not has_effect(node):
            self.views.add(node)  # The node computes a number.
            return
        self.draft_of[node] = len(self.drafts)
        draft = Draft(node, made, node in self.backward)
        for one in node.all_input_nodes:
            if one in self.value_of:
                draft.reads.add(self.value_of[one])
        self.drafts.append(draft)
        if not draft.backward and len(made) == 2 and dropout.is_dropout(node):
            result, mask = made
            draft.writes = [mask]
            self.producers[result] = len(self.drafts)
            self.drafts.append(Draft(node, [result], False, True, {*draft.reads, mask}))


def _tensors(example: object) -> list[Tensor | None]:
    if isinstance(example, Tensor):
        return [example]
    if isinstance(example, (tuple, list)):
        return [one if isinstance(one, Tensor) else None for one in flatten(example)[0]]
    return []


def has_effect(node: fx.Node) -> bool:
    """Return whether an operator writes into its inputs; True for operators without a schema."""
    schema = getattr(node.target, "_schema", None)
    return schema is None or bool(schema.is_mutable)
