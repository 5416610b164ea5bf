"""Facts of a node, computed once for all of its copies, which look the same and cost the same.

layers.3   mm of [1024, 128] and [128, 344]     seconds, workspace, bytes
layers.4   a copy of the node above             the same ones
narrowed   a copy of either                     the same ones
"""

import functools
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from torch import fx

T = TypeVar("T")

_KEY = "pgmo_facts"
"""Of a node's `meta`; copies have the same dictionary there."""


def share_facts(nodes: Iterable[fx.Node]) -> None:
    """Keep what is computed of each node for it and for all copies made of it later.

    Code that changes a copy, or makes another node with its `meta`, has to call `forget_facts`.
    """
    for node in nodes:
        node.meta.setdefault(_KEY, {})


def forget_facts(*nodes: fx.Node) -> None:
    """Drop the facts of nodes: they are no longer copies, or all of their facts are outdated."""
    for node in nodes:
        node.meta.pop(_KEY, None)


def once_for_copies(function: Callable[[fx.Node], T]) -> Callable[[fx.Node], T]:
    """Make a function of a node run once for all copies of it."""

    @functools.wraps(function)
    def found(node: fx.Node) -> T:
        facts: dict[Any, T] | None = node.meta.get(_KEY)
        if facts is None:
            return function(node)
        if function not in facts:
            facts[function] = function(node)
        return facts[function]

    return found
