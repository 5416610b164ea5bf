"""Captures and replays of PyTorch's CUDA graphs, reported to the CUDA adapter.

Graphs of different pools may share the pages of their temporaries only if the adapter sees each
launch. So this module wraps the methods of `torch._C._CUDAGraph` by which a Python program captures
and launches graphs. Other captures are not announced to the adapter, and their graphs share no
pages.

A pool whose graphs share no pages gets expandable segments if the program has one process. Several
processes may exchange a graph's memory by `cudaIpcGetMemHandle`, which refuses expandable segments.
So each announcement contains whether the program has one process, even if no graphs share pages.

    capture_begin ──▶ announce ──▶ torch ──▶ beginAllocateToPool
    replay        ──▶ before_replay ──▶ the launch ──▶ after_replay
    raw_cuda_graph, raw_cuda_graph_exec ──▶ pages of its own, because launches may be unseen later
"""

import ctypes
import itertools
import os
import sys
from collections.abc import Callable
from functools import wraps
from threading import RLock
from typing import Any

from pgmo.allocator.build.library import AdapterLibrary
from pgmo.errors import AdapterError
from pgmo.world import world

VARIABLE = "PGMO_GRAPHS"
"""Environment variable. If it is 1, graphs of different pools may share pages."""

_TREES = "torch._inductor.cudagraph_trees"
"""Module of PyTorch's graph trees. Graphs of a tree share a pool, whose blocks the tree checks."""

_SEARCHED_FRAMES = 8
"""Number of stack frames that are searched for graph trees. Context managers of `torch.cuda.graph`
lie between `capture_begin` and the graph trees."""

_MESSAGE_BYTES = 4096
"""Bytes of the buffer for the message of a failing replay; longer messages are cut. All replays
share one buffer, because creating a buffer for each replay would take too long."""

_NUMBER = "_pgmo_graph"
"""Attribute of an announced graph: its device and number."""

_numbers = itertools.count(1)

_launching = RLock()
"""Lock held from before a launch until its event is recorded, during `capture_end`, and while a
graph gets pages of its own."""


def graphs_share_pages() -> bool:
    """Return whether graphs of different pools may share pages."""
    return os.environ.get(VARIABLE, "0") == "1"


def report_graphs(library: AdapterLibrary) -> None:
    """Report captures to the adapter from now on, and replays if graphs may share pages."""
    import torch

    graph = torch._C._CUDAGraph
    if hasattr(graph.capture_begin, "__wrapped__"):
        return
    for name, wrap in _WRAPPERS.items():
        if hasattr(graph, name) and (graphs_share_pages() or wrap is _wrap_begin):
            setattr(graph, name, wrap(library, getattr(graph, name)))


def _wrap_begin(library: AdapterLibrary, original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def capture_begin(self: Any, *arguments: Any, **options: Any) -> Any:
        import torch

        shares = graphs_share_pages() and hasattr(self, "__dict__") and not _is_graph_tree_capture()
        device, number = torch.cuda.current_device(), next(_numbers) if shares else 0
        library.ask("pgmo_announce_graph", ctypes.c_uint64(number), int(world() is None))
        try:
            result = original(self, *arguments, **options)
        finally:
            library.ask("pgmo_announce_graph", ctypes.c_uint64(0), 0)
        if shares:
            setattr(self, _NUMBER, (device, number))
        return result

    return capture_begin


def _wrap_end(library: AdapterLibrary, original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def capture_end(self: Any) -> Any:
        with _launching:
            return original(self)

    return capture_end


def _wrap_replay(library: AdapterLibrary, original: Callable[..., Any]) -> Callable[..., Any]:
    message = ctypes.create_string_buffer(_MESSAGE_BYTES)
    text, size = ctypes.addressof(message), _MESSAGE_BYTES
    number_of = (ctypes.c_int, ctypes.c_uint64)
    before = library.entry("pgmo_before_replay", *number_of, ctypes.c_void_p, ctypes.c_size_t)
    after = library.entry("pgmo_after_replay", *number_of)

    @wraps(original)
    def replay(self: Any) -> Any:
        known = getattr(self, _NUMBER, None)
        if known is None:
            return original(self)
        device, number = known
        with _launching:
            if before(device, number, text, size):
                raise _out_of_memory(message.value.decode(errors="replace"))
            try:
                return original(self)
            finally:
                after(device, number)

    return replay


def _wrap_handle(library: AdapterLibrary, original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def raw_handle(self: Any) -> Any:
        known = getattr(self, _NUMBER, None)
        if known is not None:
            device, number = known
            with _launching:
                try:
                    library.call("pgmo_keep_graph_apart", device, ctypes.c_uint64(number))
                except AdapterError as error:
                    raise _out_of_memory(str(error)) from None
        return original(self)

    return raw_handle


_WRAPPERS = {
    "capture_begin": _wrap_begin,
    "capture_end": _wrap_end,
    "replay": _wrap_replay,
    "raw_cuda_graph": _wrap_handle,
    "raw_cuda_graph_exec": _wrap_handle,
}


def _out_of_memory(text: str) -> Exception:
    import torch

    return torch.OutOfMemoryError(text)


def _is_graph_tree_capture() -> bool:
    frame = sys._getframe(1)
    for _ in range(_SEARCHED_FRAMES):
        if frame.f_globals.get("__name__") == _TREES:
            return True
        if frame.f_back is None:
            return False
        frame = frame.f_back
    return False
