"""Interpreter of a graph, safe while other threads capture."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import fx


class Interpreter(fx.Interpreter):
    """Interpreter of a captured graph.

    PyTorch's own stores the running node in a process-wide variable, for captures. This one does
    not, because it would overwrite the node of a thread that captures.
    """

    @contextmanager
    def _set_current_node(self, node: fx.Node) -> Iterator[None]:
        yield
