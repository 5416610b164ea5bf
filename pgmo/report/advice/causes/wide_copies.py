"""Copies in a wider type that stay for the backward pass. Report: open-lm-engine/lm-engine#228."""

import numpy as np

from pgmo.report.advice.all_blocks import AllBlocks, Mask
from pgmo.report.advice.facts import Facts, Hint, cause

_FEWEST = 2
"""Minimum number of layers with such a copy."""


def wide_copies(facts: Facts) -> Hint | None:
    """Return a hint if copies in twice as wide a type, made by the user's code, make the peak.

    Copies that autocast makes come from a line of the library.
    """
    blocks = facts.blocks
    own = _by_user(blocks)
    copies = own & blocks.by_operator(r"\._to_copy$") & blocks.by_phase("forward")
    copies &= blocks.passes_survived > 0
    backward = blocks.by_phase("backward")
    wide = np.zeros(len(copies), np.bool_)
    for tag in np.unique(blocks.tag[copies & blocks.at_peak]).tolist():
        rows = np.flatnonzero(copies & (blocks.tag == tag))
        at_peak = rows[blocks.at_peak[rows]]
        if len(at_peak) < _FEWEST:
            continue
        if all(_has_narrow_source(blocks, row) for row in at_peak.tolist()):
            wide[rows] = True
            wide |= backward & np.isin(blocks.size, blocks.size[rows])
    return cause(
        facts,
        "Copies in a wider type are kept",
        wide,
        "are copies in a type twice as wide that stay for the backward pass",
        "Use one operation that computes in float inside (torch.nn.functional.rms_norm, "
        "layer_norm), or recompute the copies (torch.utils.checkpoint)",
    )


def _has_narrow_source(blocks: AllBlocks, row: int) -> bool:
    """Return whether a block of half the size is alive when a block is requested."""
    start = blocks.start[row]
    alive = (blocks.start < start) & (start < blocks.end)
    return bool((blocks.size[alive] == blocks.size[row] // 2).any())


def _by_user(blocks: AllBlocks) -> Mask:
    """Return which blocks a line of the user's own code requests directly, shape (n,)."""
    own = [bool(tag.stack) and tag.stack[0] == tag.file for tag in blocks.tags]
    found: Mask = np.array([*own, False])[blocks.tag]
    return found
