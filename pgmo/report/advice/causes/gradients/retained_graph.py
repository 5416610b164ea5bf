"""Cause: an autograd graph outlives its backward pass.

Report: GBLin5566/toward-controlled-generation-of-text-pytorch#9.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from pgmo.report.advice.all_blocks import AllBlocks
from pgmo.report.advice.facts import Facts, Hint, cause

_FEWEST = 8
"""Minimum number of a graph's blocks that are freed together, without a request in between."""

_ORIGINS = 4
"""Minimum number of different origins of these blocks."""

_PASSES = 2
"""Minimum number of retained graphs in a recording. With fewer graphs, there is no hint."""


def retained_graph(facts: Facts) -> Hint | None:
    """Return a hint if graphs outlive their backward pass and are alive in the next forward pass.

    A retained graph is freed as a whole, when its loss is assigned again. With several batches in a
    pipeline, a backward pass frees each graph block by block.
    """
    blocks = facts.blocks
    kept = blocks.by_phase("forward") & ~blocks.stays & (blocks.passes_survived == 1)
    starts = np.sort(blocks.start[kept])
    order = _Passes(blocks)
    graphs = np.zeros(len(kept), np.bool_)
    end = blocks.end.copy()
    found = 0
    for graph in _freed_together(blocks, np.flatnonzero(kept)):
        own, at = blocks.start[graph], int(blocks.end[graph[0]])
        spans = order.after(int(own.max()))
        if spans is None or len(np.unique(blocks.tag[graph])) < _ORIGINS:
            continue
        begin, over, is_last = spans
        if over >= at and not is_last:
            continue
        # A backward pass without retain_graph frees most blocks at different times.
        same_pass = np.searchsorted(starts, own.max(), "right") - np.searchsorted(starts, own.min())
        if len(graph) < same_pass // 2:
            continue
        graphs[graph] = True
        end[graph] = _freed_in_backward(own, begin, over)
        found += not is_last
    if found < _PASSES:
        return None
    return cause(
        facts,
        "A graph outlives its backward pass",
        graphs,
        "belong to a graph whose backward pass is over",
        "Call backward() without retain_graph=True or create_graph=True, or delete the loss "
        "(`del loss`) before the next forward pass",
        end=end,
    )


def _freed_together(blocks: AllBlocks, rows: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Yield groups of at least `_FEWEST` blocks that are freed together, by time of their free."""
    rows = rows[np.argsort(blocks.end[rows], kind="stable")]
    edges = np.flatnonzero(np.diff(blocks.end[rows])) + 1
    yield from (group for group in np.split(rows, edges) if len(group) >= _FEWEST)


class _Passes:
    """Backward passes of a recording, and the forward passes that follow them."""

    def __init__(self, blocks: AllBlocks) -> None:
        self._begins = blocks.passes
        self._forward = np.sort(blocks.start[blocks.by_phase("forward")])
        self._last = int(blocks.start[blocks.by_phase("backward")].max(initial=0))

    def after(self, request: int) -> tuple[int, int, bool] | None:
        """Return begin and end of the next backward pass, in requests, and whether it is the last.

        A pass ends at the next forward request. The last pass ends at the last backward request.
        Return None if no backward pass follows.
        """
        number = int(np.searchsorted(self._begins, request, "right"))
        if number == len(self._begins):
            return None
        begin = int(self._begins[number])
        following = int(np.searchsorted(self._forward, begin, "right"))
        if following == len(self._forward):
            return begin, max(begin, self._last), True
        return begin, int(self._forward[following]), False


def _freed_in_backward(start: NDArray[np.int64], begin: int, end: int) -> NDArray[np.int64]:
    """Return before which request a backward pass would free each block, shape (k,).

    The pass frees blocks in reverse order of their requests.
    """
    first, last = start.min(), start.max()
    late = (start - first) / max(1, last - first)
    return np.asarray(begin + (1 - late) * (end - begin), np.int64)
