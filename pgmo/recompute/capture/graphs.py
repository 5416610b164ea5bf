"""Fast creation of graph modules, with private functions of PyTorch.

    here                in PyTorch
    graph_module        fx._lazy_graph_module
    quick_copies        fx.graph.pytree

A capture makes a dozen modules and calls two of them. So the code of a module is generated at its
first call.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import fx, nn
from torch.fx._lazy_graph_module import _make_graph_module, _use_lazy_graph_module

from pgmo.recompute.capture.compat import traced_graph


class _HiddenLeaves:
    """Replacement of fx's pytree module that reports no leaves to one thread."""

    def __init__(self, original: Any) -> None:
        self._original = original
        self._thread: int | None = threading.get_ident()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)

    def tree_iter(self, tree: object, *given: Any, **named: Any) -> Any:
        """Return no leaves in the thread that made this object, and all leaves in other threads."""
        if threading.get_ident() == self._thread:
            return ()
        return self._original.tree_iter(tree, *given, **named)

    def end(self) -> Any:
        """Stop hiding leaves, and return the module that this object replaced."""
        self._thread = None
        below = self._original
        return below._original if isinstance(below, _HiddenLeaves) and not below._thread else below


@contextmanager
def quick_copies() -> Iterator[None]:
    """Run a block in which fx does not search the arguments of new nodes for symbolic numbers.

    A captured step has no symbolic numbers, and its nodes are copied tens of thousands of times.
    """
    graphs: Any = fx.graph
    quick = _HiddenLeaves(graphs.pytree)
    graphs.pytree = quick
    try:
        yield
    finally:
        below = quick.end()
        if graphs.pytree is quick:  # False if another thread has installed a replacement, too.
            graphs.pytree = below


def graph_module(root: nn.Module, graph: fx.Graph) -> fx.GraphModule:
    """Return a module that runs a graph, and has the attributes of `root`."""
    with _use_lazy_graph_module(True):
        made: fx.GraphModule = _make_graph_module(root, graph)
        return made


def mark_nodes(first: int, key: str, value: object) -> None:
    """Set a key of `meta`, if missing, in the traced graph's nodes from number `first` on."""
    graph = traced_graph()
    if graph is None:
        return
    count = len(graph.nodes)
    for node, _ in zip(reversed(graph.nodes), range(count - first), strict=False):
        node.meta.setdefault(key, value)
