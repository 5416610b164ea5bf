"""A graph that outlives its backward pass.

Report: GBLin5566/toward-controlled-generation-of-text-pytorch#9.
"""

import numpy as np
from numpy.typing import NDArray

from pgmo.report.advice.all_blocks import AllBlocks, Mask
from pgmo.report.advice.facts import Facts, Hint, cause

_FEWEST = 8
"""Minimum number of blocks of a graph that are freed at once."""

_ORIGINS = 4
"""Minimum number of their origins."""

_PASSES = 2
"""Minimum number of such graphs."""


def retained_graph(facts: Facts) -> Hint | None:
    """Return a hint if graphs live through a backward pass and the next forward pass.

    All their blocks are freed at once, when a variable is assigned again. Several batches in
    flight, as in a pipeline, free theirs one after the other, in a backward pass.
    """
    blocks = facts.blocks
    kept = blocks.by_phase("forward") & ~blocks.stays & (blocks.passes_survived == 1)
    freed, count = np.unique(blocks.end[kept], return_counts=True)
    graphs = np.zeros(len(kept), np.bool_)
    end = blocks.end.copy()
    forward = blocks.start[blocks.by_phase("forward")]
    found = 0
    for at in freed[count >= _FEWEST].tolist():
        graph = kept & (blocks.end == at)
        spans = _spans(blocks, graph)
        if spans is None or len(np.unique(blocks.tag[graph])) < _ORIGINS:
            continue
        is_last = not (forward > spans[0]).any()
        if spans[1] >= at and not is_last:
            continue
        # Otherwise most blocks of the pass are freed at other times, as without retain_graph.
        if np.count_nonzero(graph) < np.count_nonzero(_same_pass(blocks, kept, graph)) // 2:
            continue
        graphs |= graph
        end[graph] = _freed_in_backward(blocks.start[graph], *spans)
        found += not is_last
    if found < _PASSES:
        return None
    return cause(
        facts,
        "A graph outlives its backward pass",
        graphs,
        "are of a graph whose backward pass is over",
        "Call backward() without retain_graph=True or create_graph=True, or delete the loss "
        "(`del loss`) before the next forward pass",
        end=end,
    )


def _spans(blocks: AllBlocks, graph: Mask) -> tuple[int, int] | None:
    """Return the first request of a graph's backward pass, and of the next forward pass.

    If no forward pass follows, the second is the last request of the backward pass.
    """
    passes = blocks.passes[blocks.passes > blocks.start[graph].max()]
    if not len(passes):
        return None
    after = blocks.start > passes[0]
    forward = blocks.start[blocks.by_phase("forward") & after]
    backward = blocks.start[blocks.by_phase("backward") & after]
    return int(passes[0]), int(forward.min() if len(forward) else backward.max(initial=passes[0]))


def _freed_in_backward(start: NDArray[np.int64], begin: int, end: int) -> NDArray[np.int64]:
    """Return when a backward pass frees blocks: those first that were requested last."""
    first, last = start.min(), start.max()
    late = (start - first) / max(1, last - first)
    return np.asarray(begin + (1 - late) * (end - begin), np.int64)


def _same_pass(blocks: AllBlocks, kept: Mask, graph: Mask) -> Mask:
    """Return which blocks are requested between the first and the last of a graph, shape (n,)."""
    first, last = blocks.start[graph].min(), blocks.start[graph].max()
    found: Mask = kept & (first <= blocks.start) & (blocks.start <= last)
    return found
