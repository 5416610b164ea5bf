"""Cause: an evaluation builds an autograd graph. Report: hszhao/semseg#60."""

import numpy as np

from pgmo.report.advice.all_blocks import AllBlocks, Mask
from pgmo.report.advice.facts import Facts, Hint, cause

_FEWEST = 8
"""Minimum number of live forward blocks whose lifetimes contain no backward pass."""

_KEPT = 0.4
"""Minimum share of a forward pass's bytes that stay alive if it builds a graph. Caches of keys and
values, and layer outputs that a later layer reads, have a smaller share."""

_ONE_ORIGIN = 0.8
"""Maximum share of one origin in the bytes of these blocks. Above it, the blocks are collected
results, not a graph."""

_PASSES_OF_TRAINED = 1.5
_PASSES_OF_OTHERS = 0.5
"""Minimum ratio of freed blocks to live blocks of the same lines. Freed blocks count if no backward
pass used them. The first value holds if most of the live blocks come from lines that also ran in
training, the second value otherwise. The ratio is not 0, because a training step may be skipped,
and a recording may end in a forward pass if memory ran out."""


def evaluation_with_gradients(facts: Facts) -> Hint | None:
    """Return a hint if the peak consists of forward blocks that no backward pass uses."""
    blocks = facts.blocks
    graph = blocks.unused_by_backward
    held = graph & blocks.at_peak & (blocks.tag >= 0)
    if np.count_nonzero(held) < _FEWEST or not _ends_without_backward(blocks, held):
        return None
    by_origin = np.bincount(blocks.tag[held], blocks.size[held])
    if by_origin.max() > _ONE_ORIGIN * by_origin.sum():
        return None
    since, until = blocks.start[held].min(), blocks.start[blocks.at_peak].max()
    made = blocks.by_phase("forward") & (since <= blocks.start) & (blocks.start <= until)
    if blocks.size[held].sum() < _KEPT * blocks.size[made].sum():
        return None
    # Under no_grad, a layer's input and output are still alive at the same time.
    largest_two = np.sort(blocks.size[held])[-2:]
    return cause(
        facts,
        "An evaluation keeps what only a backward pass needs",
        graph,
        "come from a forward pass without a backward pass",
        "Run the evaluation under torch.inference_mode() or torch.no_grad()",
        left=float(largest_two.sum() / by_origin.sum()),
    )


def _ends_without_backward(blocks: AllBlocks, held: Mask) -> bool:
    """Return whether other blocks of the same lines are freed without a backward pass."""
    trained = blocks.by_phase("forward") & ~blocks.without("backward") & (blocks.tag >= 0)
    if not trained.any():
        return False
    is_trained = held & np.isin(blocks.tag, blocks.tag[trained])
    freed = blocks.unused_by_backward & ~blocks.stays & np.isin(blocks.tag, blocks.tag[held])
    most = 2 * np.count_nonzero(is_trained) > np.count_nonzero(held)
    passes = np.count_nonzero(freed) / np.count_nonzero(held)
    return bool(passes >= (_PASSES_OF_TRAINED if most else _PASSES_OF_OTHERS))
