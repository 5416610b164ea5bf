"""Thread-safe interpreter of a graph."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import fx


class Interpreter(fx.Interpreter):
    """Interpreter of a captured graph.

    `fx.Interpreter` stores the running node in a process-wide variable, which captures of other
    threads read. This class does not store it.
    """

    @contextmanager
    def _set_current_node(self, node: fx.Node) -> Iterator[None]:
        yield
