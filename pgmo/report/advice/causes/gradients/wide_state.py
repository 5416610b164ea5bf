"""Cause: Adam's state is in float32 instead of 8 bits. Report: meta-pytorch/torchtune#389."""

import numpy as np

from pgmo.report.advice.all_blocks import AllBlocks, Mask
from pgmo.report.advice.facts import LEAST_SAVING, Facts, Hint
from pgmo.units import format_bytes

_DOMINATES = 1 / 3
"""Minimum share of Adam's state in the peak. Below it, other advice helps more."""

_KNOWN = 0.5
"""Minimum share of the state whose weights are known to be in float32."""

_SMALLEST = 4096 * 4
"""Minimum bytes of a state tensor. 8-bit optimizers keep smaller tensors in float32."""

_LEFT = (1 + 4 / 256) / 4
"""Ratio of 8-bit state to float32 state. Each element takes a byte, and 256 elements share a
float32 scale."""

_FLOAT8 = r"float8|fp8"
"""Pattern of file names in the stack of a cast to float8, which halves bfloat16 weights."""


def wide_state(facts: Facts) -> Hint | None:
    """Return a hint if Adam's state in float32 is at least a third of the peak.

    A recording has no data types. Weights count as float32 if a forward pass casts them to half the
    size, as autocast does. Adam's state has the data type of its weights.
    """
    blocks = facts.blocks
    state = _of_adam(blocks)
    casts = blocks.by_phase("forward") & blocks.by_operator(r"\._to_copy$")
    halves = blocks.size[casts & ~blocks.by_line(_FLOAT8)]
    known = int(blocks.size[state & np.isin(blocks.size, 2 * halves)].sum())
    held = int(blocks.size[state & blocks.at_peak].sum())
    if known < _KNOWN * blocks.size[state].sum() or held < _DOMINATES * blocks.peak:
        return None
    saving = blocks.saving(state, _LEFT)
    if not saving or saving < LEAST_SAVING * blocks.peak:
        return None
    return Hint(
        "Much of the memory is optimizer state",
        f"{format_bytes(held)} of the peak of {format_bytes(blocks.peak)} are Adam's state in "
        "float32. An optimizer with 8-bit state (AdamW8bit of bitsandbytes or torchao, "
        'optim="adamw_8bit" in transformers) needs about a quarter, and changes results slightly: '
        f"the peak falls by {format_bytes(saving)}.",
        saving,
        is_cause=True,
        changes_results=True,
    )


def _of_adam(blocks: AllBlocks) -> Mask:
    """Return which blocks are Adam's state, shape (n,); none if another optimizer may own it.

    For each weight, Adam requests two tensors in succession, so Adam's state is larger than the
    weights. SGD with momentum requests one tensor for each weight. If all weights have the same
    size, momentum tensors also form pairs, but their sum is not larger than the weights.
    """
    long = blocks.stays | (blocks.passes_survived > 0)
    state = blocks.by_phase("optimizer") & long & (blocks.size >= _SMALLEST)
    rows = np.flatnonzero(state)
    sizes = blocks.size[rows[np.argsort(blocks.start[rows], kind="stable")]]
    weights = blocks.by_phase("other") & long & np.isin(blocks.size, sizes)
    is_adam = len(sizes) % 2 == 0 and np.array_equal(sizes[::2], sizes[1::2])
    return state & (is_adam and sizes.sum() > blocks.size[weights].sum())
