"""Fast creation of graph modules, with private functions of PyTorch.

    here                in PyTorch
    graph_module        fx._lazy_graph_module
    quick_copies        fx.graph.pytree

A capture makes a dozen modules and calls two of them. So the code of a module is generated at its
first call.
"""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from torch import fx, nn
from torch.fx._lazy_graph_module import _make_graph_module, _use_lazy_graph_module

from pgmo.recompute.capture.quiet import SharedChange


class _Thread(threading.local):
    depth = 0  # Nesting of `quick_copies`.


_thread = _Thread()


class _HiddenLeaves:
    """Replacement of fx's pytree module that reports no leaves to threads in `quick_copies`."""

    def __init__(self, original: Any) -> None:
        self._original = original

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)

    def tree_iter(self, tree: object, *given: Any, **named: Any) -> Any:
        """Return the leaves of a tree; none within `quick_copies`."""
        return () if _thread.depth else self._original.tree_iter(tree, *given, **named)


def _hide_leaves(stack: ExitStack) -> None:
    graphs: Any = fx.graph
    stack.enter_context(patch.object(graphs, "pytree", _HiddenLeaves(graphs.pytree)))


_leaves_hidden = SharedChange(_hide_leaves)


@contextmanager
def quick_copies() -> Iterator[None]:
    """Run a block in which fx does not search the arguments of new nodes for symbolic numbers.

    A captured step has no symbolic numbers, and its nodes are copied tens of thousands of times.
    """
    with _leaves_hidden:
        _thread.depth += 1
        try:
            yield
        finally:
            _thread.depth -= 1


def graph_module(root: nn.Module, graph: fx.Graph) -> fx.GraphModule:
    """Return a module that runs a graph, and has the attributes of `root`."""
    with _use_lazy_graph_module(True):
        made: fx.GraphModule = _make_graph_module(root, graph)
        return made
