"""Cause: zero_grad fills gradients with zeros instead of freeing. Report: MIC-DKFZ/nnUNet#1630."""

import numpy as np

from pgmo.report.advice.facts import LEAST_SAVING, Facts, Hint
from pgmo.units import format_bytes

_FEWEST_STEPS = 3
"""Minimum number of optimizer steps in the lifetime of a gradient."""


def zeroed_gradients(facts: Facts) -> Hint | None:
    """Return a hint if gradients outlive optimizer steps.

    With set_to_none=True, the next backward pass would allocate each gradient again, as the first
    backward pass did.
    """
    blocks = facts.blocks
    if "Optimizer.step#" not in facts.profile.meta.notes.get("marks", ""):
        return None  # Without marks, gradients may be accumulated over any number of iterations.
    first = np.searchsorted(blocks.marks, blocks.start, "right")
    steps = np.searchsorted(blocks.marks, blocks.end, "right") - first
    weights = blocks.by_phase("other") & (blocks.passes_survived >= _FEWEST_STEPS)
    gradients = blocks.by_phase("backward") & np.isin(blocks.size, blocks.size[weights])
    kept = np.flatnonzero(gradients & (steps >= _FEWEST_STEPS))
    if not len(kept) or not len(blocks.passes):
        return None
    size, start, end = [], [], []
    own_pass = blocks.passes[np.searchsorted(blocks.passes, blocks.start[kept], "right") - 1]
    offset = blocks.start[kept] - own_pass
    for at, mark in enumerate(blocks.marks.tolist()):
        alive = (first[kept] <= at) & (blocks.end[kept] > mark)
        following = blocks.passes[np.searchsorted(blocks.passes, mark) :][:1]
        # A backward pass adds a temporary to the gradient. If the gradient is None, the temporary
        # becomes the gradient.
        again = following[0] + offset[alive] + 1 if len(following) else blocks.ticks
        until = np.minimum(again, blocks.end[kept][alive])
        size.append(blocks.size[kept][alive])
        start.append(np.full(np.count_nonzero(alive), mark))
        end.append(np.maximum(until, mark))
    saving = blocks.saving_within(*(np.concatenate(one) for one in (size, start, end)))
    if saving < LEAST_SAVING * blocks.peak:
        return None
    held = format_bytes(int(blocks.size[kept].sum()))
    return Hint(
        "Gradients of the last iteration at the peak",
        f"{held} of gradients outlive {_FEWEST_STEPS} optimizer steps or more: they are filled "
        "with zeros, not freed. Call zero_grad(set_to_none=True) right after optimizer.step(): the "
        f"peak falls by {format_bytes(saving)}.",
        saving,
        is_cause=True,
    )
