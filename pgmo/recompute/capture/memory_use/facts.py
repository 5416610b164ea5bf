"""Facts about a node, such as its modelled time, computed once for all of its copies."""

import functools
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from torch import fx

T = TypeVar("T")

_KEY = "pgmo_facts"
"""Key of a node's `meta`: dictionary from functions to their results, shared by copies."""


def share_facts(nodes: Iterable[fx.Node]) -> None:
    """Let nodes share facts with their later copies.

    Code that changes a copy, or reuses its `meta` for another node, must call `forget_facts`.
    """
    for node in nodes:
        node.meta.setdefault(_KEY, {})


def forget_facts(*nodes: fx.Node) -> None:
    """Stop nodes from sharing facts with other copies."""
    for node in nodes:
        node.meta.pop(_KEY, None)


def once_for_copies(function: Callable[[fx.Node], T]) -> Callable[[fx.Node], T]:
    """Return a function of a node that computes its result once for copies that share facts."""

    @functools.wraps(function)
    def found(node: fx.Node) -> T:
        facts: dict[Any, T] | None = node.meta.get(_KEY)
        if facts is None:
            return function(node)
        if function not in facts:
            facts[function] = function(node)
        return facts[function]

    return found
