"""Facts about a node, computed once for all of its copies.

layers.3   mm of [1024, 128] and [128, 344]     seconds, workspace, bytes
layers.4   a copy of the node above             the same facts
narrowed   a copy of either                     the same facts
"""

import functools
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from torch import fx

T = TypeVar("T")

_KEY = "pgmo_facts"
"""Key of the facts in a node's `meta`; copies share the dictionary there."""


def share_facts(nodes: Iterable[fx.Node]) -> None:
    """Make nodes share their computed facts with all copies made of them later.

    Code that changes a copy, or makes another node with its `meta`, must call `forget_facts`.
    """
    for node in nodes:
        node.meta.setdefault(_KEY, {})


def forget_facts(*nodes: fx.Node) -> None:
    """Drop the facts of nodes that are no copies any more, or whose facts are outdated."""
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
