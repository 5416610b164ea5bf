"""Cause: FSDP gathers parameters of several units ahead. Report: instructlab/training#307."""

import numpy as np

from pgmo.report.advice.facts import LEAST_SAVING, Facts, Hint
from pgmo.units import format_bytes

_GATHERED = r"_fsdp_collectives\.py:\d+ in foreach_all_gather$"
"""Stack line of the buffer into which FSDP gathers the parameters of a unit."""

_FORWARD, _BACKWARD = 2, 1
"""Number of buffers that are alive at once by default. In the forward pass, FSDP fills the next
unit's buffer while it copies the running unit's buffer. In the backward pass, it fills the next
unit's buffer after that copy."""


def gathered_ahead(facts: Facts) -> Hint | None:
    """Return a hint if FSDP gathers more units ahead than by default, and so raises the peak.

    By default, FSDP allocates each buffer only when it frees an earlier one.
    """
    blocks = facts.blocks
    rows = np.flatnonzero(blocks.by_line(_GATHERED))
    rows = rows[np.argsort(blocks.start[rows], kind="stable")]
    start, end = blocks.start[rows], blocks.end[rows]
    at_once = np.where(blocks.by_phase("backward")[rows], _BACKWARD, _FORWARD)
    earlier = np.arange(len(rows)) - at_once
    until = np.where(earlier < 0, start, end[np.maximum(0, earlier)])
    saving = blocks.saving_within(blocks.size[rows], start, np.clip(until, start, end))
    if saving < LEAST_SAVING * blocks.peak or not saving:
        return None
    held = blocks.size[rows][blocks.at_peak[rows]]
    return Hint(
        "Parameters are gathered too early",
        f"FSDP holds buffers of {len(held)} units at the peak, {format_bytes(int(held.sum()))} of "
        f"{format_bytes(blocks.peak)}: it gathers their parameters ahead. Pass fewer modules to "
        "set_modules_to_forward_prefetch and set_modules_to_backward_prefetch, or do not call "
        f"them: the peak falls by {format_bytes(saving)}.",
        saving,
        is_cause=True,
    )
