"""Operations that eager mode does in place and a capture does not.

Autograd adds a gradient to another in place, if no further node reads the overwritten gradient. The
bits and the layout of the sum do not change. The operations of a backward pass run once and in
order, so a gradient may be overwritten at its last use.

A capture turns `base[0] = x` into `select_scatter(base, copy(base[0], x))`. The copy has the
strides of the slice, so its storage may be as large as `base`. pgmo lets the scatter read `x`.
"""

import torch
from torch import Tensor, fx

from pgmo.recompute.capture.compat import fakes, is_backward, metadata, storage_key
from pgmo.recompute.capture.memory_use.costs import update_example
from pgmo.recompute.capture.memory_use.facts import forget_facts

ADD, ADD_IN_PLACE = torch.ops.aten.add.Tensor, torch.ops.aten.add_.Tensor

COPY = torch.ops.aten.copy.default
SCATTERS = frozenset(
    (
        torch.ops.aten.select_scatter.default,
        torch.ops.aten.slice_scatter.default,
        torch.ops.aten.diagonal_scatter.default,
    )
)


def scatter_sources(joint: fx.GraphModule) -> None:
    """Let scatters read the source of a copy, not the copy, if shape and dtype are the same."""
    for node in joint.graph.find_nodes(op="call_function", target=COPY):
        if node.kwargs or any(
            user.target not in SCATTERS or user.args[0] is node for user in node.users
        ):
            continue
        made, given = node.meta["val"], node.args[1].meta.get("val")
        if isinstance(given, Tensor) and (made.shape, made.dtype) == (given.shape, given.dtype):
            node.replace_all_uses_with(node.args[1])
            joint.graph.erase_node(node)


def sum_in_place(joint: fx.GraphModule) -> None:
    """Let additions of the backward pass overwrite a summand where autograd does."""
    place = {node: index for index, node in enumerate(joint.graph.nodes)}
    owners: dict[int, list[fx.Node]] = {}  # Nodes in each storage, by its key.
    for node in joint.graph.nodes:
        for key in {storage_key(one) for one in fakes(node.meta.get("val"))}:
            owners.setdefault(key, []).append(node)
    moved: set[int] = set()
    before: list[object] = []  # Old examples, kept alive: new storages must not get their keys.
    for node in joint.graph.nodes:
        if node.op != "call_function":
            continue
        if any(storage_key(one) in moved for one in fakes(node.meta.get("val"))):
            before.append(node.meta["val"])
            update_example(node)
            for key in {storage_key(one) for one in fakes(node.meta.get("val"))}:
                owners.setdefault(key, []).append(node)
        if node.target is not ADD or node.kwargs or not is_backward(node):
            continue
        for first, second in (node.args, reversed(node.args)):
            if _may_overwrite(node, first, second, owners, place):
                before.append(node.meta["val"])
                moved.add(storage_key(node.meta["val"]))
                _overwrite(node, first, second, owners)
                break


def _overwrite(
    node: fx.Node, first: fx.Node, second: fx.Node, owners: dict[int, list[fx.Node]]
) -> None:
    here, there = storage_key(node.meta["val"]), storage_key(first.meta["val"])
    owners.setdefault(there, []).extend(owners.pop(here, []))
    node.target, node.args = ADD_IN_PLACE, (first, second)
    node.meta["val"] = first.meta["val"]
    forget_facts(node)


def _may_overwrite(
    node: fx.Node,
    first: object,
    second: object,
    owners: dict[int, list[fx.Node]],
    place: dict[fx.Node, int],
) -> bool:
    if not isinstance(first, fx.Node) or not isinstance(second, fx.Node) or first is second:
        return False
    mine, its, made = (one.meta.get("val") for one in (first, second, node))
    if not (isinstance(mine, Tensor) and isinstance(its, Tensor) and isinstance(made, Tensor)):
        return False
    alike = metadata(mine) == metadata(made) and mine.dtype == its.dtype
    key = storage_key(mine)
    if not alike or key in (storage_key(its), storage_key(made)) or not _fills_storage(mine):
        return False
    if not all(_is_view(one, node, place) for one in owners[storage_key(made)] if one is not node):
        return False
    return all(
        one.op == "call_function"
        and is_backward(one)
        and all(place[user] <= place[node] and user.op != "output" for user in one.users)
        for one in owners[key]
        if place[one] < place[node]
    ) and all(place[one] < place[node] for one in owners[key])


def _is_view(one: fx.Node, node: fx.Node, place: dict[fx.Node, int]) -> bool:
    """Return whether a node in the storage of a sum is a single tensor that follows the sum."""
    return place[one] > place[node] and isinstance(one.meta.get("val"), Tensor)


def _fills_storage(tensor: Tensor) -> bool:
    """Return whether a tensor fills its storage, without gaps or overlaps."""
    step = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size != 1 and stride != step:
            return False
        step *= size
    return tensor.untyped_storage().nbytes() == tensor.numel() * tensor.element_size()
