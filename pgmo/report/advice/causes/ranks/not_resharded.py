"""Cause: FSDP keeps gathered parameters until the backward pass. Report: saforem2/ezpz#173."""

import numpy as np

from pgmo.report.advice.facts import LEAST_SAVING, Facts, Hint
from pgmo.units import format_bytes

PARAMETERS = r"_fsdp_param\.py:\d+ in (?:alloc|init)_all_gather_outputs$"
"""Stack line of a parameter that FSDP has gathered."""

_FEWEST = 4
"""Minimum number of units whose parameters are kept. By default, FSDP keeps only those of the root
unit."""


def not_resharded(facts: Facts) -> Hint | None:
    """Return a hint if FSDP keeps the parameters of its units after their forward pass.

    With the fix, FSDP frees a unit's parameters when it gathers the next unit. While the backward
    pass runs unit i + 1, FSDP gathers unit i again, and frees unit i + 2.
    """
    blocks = facts.blocks
    kept = blocks.by_line(PARAMETERS) & blocks.by_phase("forward") & ~blocks.stays
    kept &= blocks.passes_survived > 0
    rows = np.flatnonzero(kept)
    rows = rows[np.argsort(blocks.start[rows], kind="stable")]
    starts = np.diff(blocks.start[rows], prepend=-2) > 1
    number = np.searchsorted(blocks.passes, blocks.start[rows[starts]])
    is_root = np.diff(number, prepend=-1) > 0  # FSDP gathers the root unit first.
    units = np.split(rows, np.flatnonzero(starts))[1:]
    units = [unit for unit, root in zip(units, is_root, strict=True) if not root]
    size, start, end = [], [], []
    for one, after, second in zip(units, units[1:], units[2:], strict=False):
        freed = blocks.end[second].max()
        if blocks.end[one].max() > freed:  # Otherwise the next iteration begins in between.
            size.append(blocks.size[one].sum())
            start.append(blocks.start[after].min())
            end.append(freed)
    saving = blocks.saving_within(np.array(size), np.array(start), np.array(end)) if size else 0
    at_peak = sum(bool(blocks.at_peak[one].all()) for one in units)
    if at_peak < _FEWEST or saving < LEAST_SAVING * blocks.peak:
        return None
    return Hint(
        "Gathered parameters are kept for the backward pass",
        f"FSDP holds the gathered parameters of {at_peak} units at the peak of "
        f"{format_bytes(blocks.peak)}, because it keeps them after the forward pass. Pass "
        "reshard_after_forward=True to fully_shard, which then gathers them again in the backward "
        f"pass: the peak falls by {format_bytes(saving)}.",
        saving,
        is_cause=True,
    )
