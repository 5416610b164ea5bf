"""Figures of the pages of graphs, from the adapter."""

import ctypes

from pgmo.allocator.adapters.torch_cuda import adapter_library


def figures(device: int = 0) -> dict[str, int]:
    """Return the adapter's figures: bytes of pages and segments, moves, waits, and lent pages."""
    out = (ctypes.c_uint64 * 5)()
    adapter_library().ask("pgmo_graph_figures", device, out)
    return dict(zip(("pages", "segments", "moves", "waits", "lent"), out, strict=True))
