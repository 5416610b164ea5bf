"""Suspension of tagging while a thread captures a CUDA graph.

Under a dispatch mode, autograd allocates gradient sums instead of adding in place. A captured
backward pass would request more memory, which its graph keeps. Requests of captures are not
recorded, so they need no tags.
"""

import functools
import threading
from collections.abc import Callable
from typing import Any

from pgmo.profiler.tagging.operator_mode import OperatorMode


def suspend_during_captures(mode: OperatorMode) -> Callable[[], None]:
    """Suspend a mode on each thread while it captures. Return a function that ends this."""
    import torch

    graph: Any = getattr(torch._C, "_CUDAGraph", None)
    if graph is None or not hasattr(graph, "capture_begin"):
        return lambda: None
    begin, end = graph.capture_begin, graph.capture_end
    thread = threading.local()

    @functools.wraps(begin)
    def capture_begin(self: Any, *arguments: Any, **options: Any) -> Any:
        thread.suspended = mode.suspend()
        return begin(self, *arguments, **options)

    @functools.wraps(end)
    def capture_end(self: Any) -> Any:
        try:
            return end(self)
        finally:
            if getattr(thread, "suspended", False):
                thread.suspended = False
                mode.restore()

    graph.capture_begin, graph.capture_end = capture_begin, capture_end

    def undo() -> None:
        if graph.capture_begin is capture_begin:  # Otherwise another wrapper needs this one.
            graph.capture_begin, graph.capture_end = begin, end

    return undo
