"""Cause: copies in a wider type stay for backward. Report: open-lm-engine/lm-engine#228."""

import re

import numpy as np

from pgmo.profiler.tag import Tag
from pgmo.report.advice.all_blocks import AllBlocks, Mask
from pgmo.report.advice.facts import Facts, Hint, cause

_SOURCE = 0.5
"""Share of a copy's bytes that stays with the fix, because a fused operation saves its narrow
input."""

_FEWEST = 2
"""Minimum number of copies by one line at the peak. Each layer makes one copy."""


def wide_copies(facts: Facts) -> Hint | None:
    """Return a hint if the user's code copies tensors to a type twice as wide, at the peak.

    Autocast also makes wider copies, but a line of PyTorch requests them, not the user's code.
    """
    blocks = facts.blocks
    own = _by_user(blocks)
    copies = own & blocks.by_operator(r"\._to_copy$") & blocks.by_phase("forward")
    copies &= blocks.passes_survived > 0
    backward = blocks.by_phase("backward")
    wide = np.zeros(len(copies), np.bool_)
    left = np.zeros(len(copies))
    # One line may make copies in both directions, of different sizes.
    shown = np.flatnonzero(copies & blocks.at_peak)
    origins = np.unique(np.stack([blocks.tag[shown], blocks.size[shown]]), axis=1)
    for tag, size in origins.T.tolist():
        at_peak = shown[(blocks.tag[shown] == tag) & (blocks.size[shown] == size)]
        if len(at_peak) < _FEWEST:
            continue
        if all(_has_narrow_source(blocks, row) for row in at_peak.tolist()):
            found = copies & (blocks.tag == tag) & (blocks.size == size)
            left[found] = _SOURCE
            wide |= found | (backward & (blocks.size == size))
            wide |= _copied_back(blocks, copies, blocks.tags[tag], size // 2)
    return cause(
        facts,
        "Copies in a wider type are kept",
        wide,
        "are copies in a type twice as wide that stay for the backward pass",
        "Use one operation that computes in float inside (torch.nn.functional.rms_norm, "
        "layer_norm), or recompute the copies (torch.utils.checkpoint)",
        left=left,
    )


def _copied_back(blocks: AllBlocks, copies: Mask, tag: Tag, size: int) -> Mask:
    """Return which copies are back to the narrow type and used in the same function, shape (n,).

    If a function uses a copy, the function's next request has the copy's size. A copy that the
    function returns is not found, because it stays with the fix, too.
    """
    function = _function(tag)
    own = np.array([*(_function(one) == function for one in blocks.tags), False])[blocks.tag]
    results = own & (blocks.size == size) & (blocks.passes_survived > 0)
    back: Mask = copies & results
    return back & np.isin(blocks.start + 1, blocks.start[results & ~back])


def _function(tag: Tag) -> str:
    """Return file and function of the innermost stack line, without the line number."""
    return re.sub(r":\d+ in ", " ", tag.stack[0]) if tag.stack else ""


def _has_narrow_source(blocks: AllBlocks, row: int) -> bool:
    """Return whether a block of half the size is alive when this block is requested."""
    start = blocks.start[row]
    alive = (blocks.start < start) & (start < blocks.end)
    return bool((blocks.size[alive] == blocks.size[row] // 2).any())


def _by_user(blocks: AllBlocks) -> Mask:
    """Return which blocks the user's own code requests, shape (n,)."""
    own = [bool(tag.stack) and tag.stack[0] == tag.file for tag in blocks.tags]
    found: Mask = np.array([*own, False])[blocks.tag]
    return found
