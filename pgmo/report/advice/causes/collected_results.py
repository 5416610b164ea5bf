"""Results that pile up on the device. Report: facebookresearch/SlowFast#411."""

import numpy as np

from pgmo.report.advice.all_blocks import AllBlocks, Mask
from pgmo.report.advice.facts import Facts, Hint, cause

_FEWEST = 6
"""Minimum number of live blocks of one origin."""

_APART = 2
"""Minimum number of requests between two of these blocks."""

_ONE_ORIGIN = 0.8
"""Minimum share of one origin in the bytes that no backward pass uses. Below it, the blocks belong
to an autograd graph, which has many origins."""


def collected_results(facts: Facts) -> Hint | None:
    """Return a hint if the peak has many equal blocks of one line that no backward pass uses."""
    blocks = facts.blocks
    held = blocks.unused_by_backward & blocks.at_peak & (blocks.tag >= 0)
    if not held.any():
        return None
    by_origin = np.bincount(blocks.tag[held], blocks.size[held])
    origin = int(np.argmax(by_origin))
    own = held & (blocks.tag == origin)
    count = int(np.count_nonzero(own))
    if count < _FEWEST or by_origin[origin] < _ONE_ORIGIN * by_origin.sum():
        return None
    if np.diff(np.sort(blocks.start[own])).min() <= _APART:
        return None
    if _are_of_layers(blocks, own):
        return None
    return cause(
        facts,
        "Results are collected on the device",
        blocks.unused_by_backward & (blocks.tag == origin),
        "are results of one line of code, all kept on the device",
        "Move each result to the host (`.cpu()`), or update the metric with each result",
        left=1 / count,
    )


def _are_of_layers(blocks: AllBlocks, own: Mask) -> bool:
    """Return whether a pass through the model makes several of these blocks, one in each layer.

    For example, a model caches keys and values. Blocks are of layers if other parts of a pass, such
    as the embedding, run less often than the blocks are requested, or only before them.
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
