"""Cause: gradients of the last iteration live through the forward pass and are freed after it.

Report: facebookresearch/detectron2#4905.
"""

import numpy as np

from pgmo.report.advice.facts import Facts, Hint, cause


def late_zero_grad(facts: Facts) -> Hint | None:
    """Return a hint if gradients live through a forward pass and no backward pass adds to them."""
    blocks = facts.blocks
    forward = np.unique(blocks.start[blocks.by_phase("forward")])
    backward = np.unique(blocks.start[blocks.by_phase("backward")])
    next_forward = _next(forward, blocks.start, blocks.ticks)
    next_backward = _next(backward, next_forward, blocks.ticks)
    gradients = blocks.by_phase("backward")
    # Accumulated gradients stay alive in the next backward pass.
    late = gradients & (next_forward < blocks.end) & (blocks.end <= next_backward)
    late &= ~blocks.stays
    return cause(
        facts,
        "Gradients of the last iteration at the peak",
        late,
        "are gradients of the previous iteration",
        "Call optimizer.zero_grad(set_to_none=True) right after optimizer.step(), not after the "
        "next forward pass",
        end=np.where(late, next_forward, blocks.end),
    )


def _next(ticks: np.ndarray, after: np.ndarray, last: int) -> np.ndarray:
    """Return, for each value of `after`, the first of `ticks` at or after this value, or `last`."""
    return np.append(ticks, last)[np.searchsorted(ticks, after)]
