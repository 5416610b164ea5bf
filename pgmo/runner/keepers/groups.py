"""Groups of kept tensors. Each group is the smallest place that keeps most bytes of a variable.

train
├── .history    list      72 MiB     no element has most bytes, so `train.history` is a group
├── .trainer    Trainer   40 MiB     an object splits into its attributes
└── .config     dict       8 MiB
    └── ['cache']  list    8 MiB     has most bytes, so `train.config['cache']` is a group
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from pgmo.runner.keepers.census import KeptBlock
from pgmo.runner.keepers.place import Place
from pgmo.units import format_bytes

_MOST_OF_IT = 0.8
"""Minimum share of a place's bytes at which one part is reported instead of the place."""

_LEAST = 0.05
"""Minimum share of a group in the growth of all groups. Smaller groups are not reported."""


@dataclass(frozen=True)
class Keeper:
    """Place that keeps tensors.

    Args:
        name: name of the place, such as "train.history".
        kind: type name of the object at the place; "" for a group such as parameters.
        tensors: number of tensors.
        size: bytes that the tensors and their graphs occupy.
        by_graphs: bytes of `size` that only autograd graphs keep alive.
        grown: net growth in bytes since the earlier census; `size` without an earlier census.
    """

    name: str
    kind: str
    tensors: int
    size: int
    by_graphs: int
    grown: int

    def __str__(self) -> str:
        what = "1 tensor" if self.tensors == 1 else f"{self.tensors} tensors"
        if self.kind == "graph" or not self.tensors:
            what = "saved tensors"
        elif self.kind not in ("", "Tensor", "Parameter"):
            what = f"{self.kind} of {what}"
        if self.by_graphs and self.kind != "graph" and self.tensors:
            what += " and their graphs"
        return f"{self.name} ({what}, {format_bytes(self.size)})"


@dataclass(eq=False)
class _Node:
    place: Place | None = None
    children: dict[str, "_Node"] = field(default_factory=dict)
    tensors: int = 0
    size: int = 0
    by_graphs: int = 0
    before: int = 0

    @property
    def grown(self) -> int:
        return self.size - self.before


def find_keepers(
    blocks: Iterable[KeptBlock], before: Iterable[KeptBlock] = (), *, most: int = 3
) -> tuple[Keeper, ...]:
    """Return the places that have grown most; without `before`, the places with the most bytes.

    A block that was alive in the earlier census is not growth, even if another place keeps it now.
    For example, the parameters of a model are found in a function while the function runs, and in a
    module afterwards.

    Args:
        blocks: blocks of one device in a census.
        before: blocks of the same device in an earlier census.
        most: maximum number of places.
    """
    root = _Node()
    blocks, earlier = list(blocks), {(one.address, one.size): one for one in before}
    for block in blocks:
        was_alive = earlier.pop((block.address, block.size), None) is not None
        for node in _path(root, block.place):
            node.size += block.size
            node.tensors += not block.by_graph
            node.by_graphs += block.size * block.by_graph
            node.before += block.size * was_alive
    for block in earlier.values():
        for node in _path(root, block.place):
            node.before += block.size
    least = max(1, _LEAST * sum(max(0, one.grown) for one in root.children.values()))
    found = [
        Keeper(
            node.place.name,
            node.place.kind,
            node.tensors,
            node.size,
            node.by_graphs,
            node.grown,
        )
        for node in _largest(root, least)
        if node.place is not None
    ]
    found.sort(key=lambda one: (-one.grown, one.name))
    return tuple(found[:most])


def _path(root: _Node, place: Place) -> list[_Node]:
    """Return the nodes from the root, exclusive, to a place, and add missing nodes."""
    places: list[Place] = []
    above: Place | None = place
    while above is not None:
        places.append(above)
        above = above.parent
    node, nodes = root, []
    for one in reversed(places):
        node = node.children.setdefault(one.key, _Node(one))
        nodes.append(node)
    return nodes


def _largest(node: _Node, least: float) -> list[_Node]:
    """Return the nodes to report for the bytes at and below a node."""
    if node.place is not None and not node.place.splits:
        for child in node.children.values():
            if child.grown >= _MOST_OF_IT * node.grown:
                return _largest(child, least)
        return [node]
    parts = [child for child in node.children.values() if child.grown >= least]
    found = [one for child in parts for one in _largest(child, least)]
    is_scope = node.place is None or node.place.parent is None
    return found if found or is_scope else [node]
