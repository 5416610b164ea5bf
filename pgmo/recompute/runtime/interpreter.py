"""Interpreter of a graph, safe while other threads capture."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import fx


class Interpreter(fx.Interpreter):
    """Runs a graph that has been captured, node by node.

    PyTorch keeps the node that runs in a variable of the process, for captures. Nothing is captured
    here, and a thread that does capture would lose what it has noted there.
    """

    @contextmanager
    def _set_current_node(self, node: fx.Node) -> Iterator[None]:
        yield
