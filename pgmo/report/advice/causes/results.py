"""Causes: forward passes without a backward pass, whose graph or results stay on the device.

Reports: hszhao/semseg#60 (an evaluation with a graph), facebookresearch/SlowFast#411 (results).
"""

import numpy as np

from pgmo.report.advice.all_blocks import AllBlocks, Mask
from pgmo.report.advice.facts import Facts, Hint, cause

_ONE_ORIGIN = 0.8
"""Share of one origin in the bytes that no backward pass uses. Above this share, the blocks are
collected results. Below it, they belong to an autograd graph, which has many origins."""

_FEWEST_BLOCKS = 8
"""Minimum number of a graph's live blocks that no backward pass uses."""

_KEPT = 0.4
"""A forward pass builds a graph if at least this share of its bytes stays alive. Caches of keys and
values, and layer outputs that a later layer reads, have a smaller share."""

_PASSES_OF_TRAINED = 1.5
_PASSES_OF_OTHERS = 0.5
"""Minimum ratio of freed to live blocks of the same origins. Only blocks that no backward pass used
count. The first value applies if most live blocks have origins of training, else the second.
Without this minimum, a skipped training step, or a forward pass in which memory runs out, would
look like an evaluation."""

_FEWEST_RESULTS = 6
"""Minimum number of live blocks of one origin that count as results."""

_APART = 2
"""Results are more than this number of requests apart."""


def evaluation_with_gradients(facts: Facts) -> Hint | None:
    """Return a hint if a forward pass without a backward pass keeps its graph at the peak."""
    blocks = facts.blocks
    graph = blocks.unused_by_backward
    held = graph & blocks.at_peak & (blocks.tag >= 0)
    if np.count_nonzero(held) < _FEWEST_BLOCKS or not _ends_without_backward(blocks, held):
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


def collected_results(facts: Facts) -> Hint | None:
    """Return a hint if many blocks of one origin, unused by backward passes, are at the peak."""
    blocks = facts.blocks
    held = blocks.unused_by_backward & blocks.at_peak & (blocks.tag >= 0)
    if not held.any():
        return None
    by_origin = np.bincount(blocks.tag[held], blocks.size[held])
    origin = int(np.argmax(by_origin))
    own = held & (blocks.tag == origin)
    count = int(np.count_nonzero(own))
    if count < _FEWEST_RESULTS or by_origin[origin] < _ONE_ORIGIN * by_origin.sum():
        return None
    if np.diff(np.sort(blocks.start[own])).min() <= _APART or _are_of_layers(blocks, own):
        return None
    return cause(
        facts,
        "Results are collected on the device",
        blocks.unused_by_backward & (blocks.tag == origin),
        "are results of one operation, all kept on the device",
        "Move each result to the host (`.cpu()`), or update the metric with each result",
        left=1 / count,
    )


def _ends_without_backward(blocks: AllBlocks, held: Mask) -> bool:
    """Return whether enough blocks of the same origins are freed without a backward pass."""
    trained = blocks.by_phase("forward") & ~blocks.without("backward") & (blocks.tag >= 0)
    if not trained.any():
        return False
    is_trained = held & np.isin(blocks.tag, blocks.tag[trained])
    freed = blocks.unused_by_backward & ~blocks.stays & np.isin(blocks.tag, blocks.tag[held])
    most = 2 * np.count_nonzero(is_trained) > np.count_nonzero(held)
    passes = np.count_nonzero(freed) / np.count_nonzero(held)
    return bool(passes >= (_PASSES_OF_TRAINED if most else _PASSES_OF_OTHERS))


def _are_of_layers(blocks: AllBlocks, own: Mask) -> bool:
    """Return whether each layer in one pass through the model makes one of these blocks.

    For example, each layer caches its keys. Other parts of the pass, such as the embedding, then
    make at most half as many requests, or run only before the blocks are requested.
    """
    start = np.sort(blocks.start[own])
    forward = blocks.by_phase("forward") & (blocks.tag >= 0)
    between = forward & (start[0] <= blocks.start) & (blocks.start <= start[-1])
    times = np.bincount(blocks.tag[between], minlength=len(blocks.tags))
    if ((times > 0) & (times <= len(start) // 2)).any():
        return True
    one_pass = int(np.median(np.diff(start)))
    before = forward & (start[0] - one_pass < blocks.start) & (blocks.start < start[0])
    return not times[blocks.tag[before]].all()
