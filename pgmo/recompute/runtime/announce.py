"""Runs of a graph that declare the module and phase of each operator to pgmo's recorders."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import fx

from pgmo.profiler.tagging import origin
from pgmo.recompute.capture.compat import Runner, boxed, mark_boxed

ORIGIN = "pgmo_origin"
"""Key of a node's `meta`: path of its module, and its phase."""


def announced(module: fx.GraphModule) -> Runner:
    """Return a runner of a graph. The runner declares operators while a recorder listens."""
    run = boxed(module)

    def announced_run(arguments: list[Any]) -> Any:
        if origin.listening():
            return _Announcing(module).boxed_run(arguments)
        return run(arguments)

    return mark_boxed(announced_run)


class Interpreter(fx.Interpreter):
    """Thread-safe interpreter of a captured graph.

    `fx.Interpreter` stores the running node in a process-wide variable, which captures of other
    threads read. This class does not store it.
    """

    @contextmanager
    def _set_current_node(self, node: fx.Node) -> Iterator[None]:
        yield


class _Announcing(Interpreter):
    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module)
        self.extra_traceback = False  # Errors have the same text with and without a recorder.

    def run_node(self, n: fx.Node) -> Any:
        place = n.meta.get(ORIGIN)
        if place is None:
            return super().run_node(n)
        with origin.declare(*place):
            return super().run_node(n)
