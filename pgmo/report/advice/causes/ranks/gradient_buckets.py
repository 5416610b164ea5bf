"""Cause: DDP's buckets are a second copy of all gradients. Report: pytorch/pytorch#41954."""

import numpy as np

from pgmo.report.advice.facts import Facts, Hint, cause

_BUCKETS = r"distributed\.py:\d+ in (?:_ddp_init_helper|_pre_forward|_rebuild_buckets)$"
_LIFE = 2
"""Lifetime of a gradient with the fix, in requests: DDP frees it after the copy into a bucket."""

_SHARE = 0.8
"""Minimum ratio of the gradients' bytes at the peak to the buckets' bytes."""


def gradient_buckets(facts: Facts) -> Hint | None:
    """Return a hint if DDP's gradients take memory in addition to its buckets."""
    blocks = facts.blocks
    buckets = blocks.by_line(_BUCKETS) & (blocks.passes_survived > 0)
    buckets &= blocks.by_operator(r"^$|\.empty$")
    backward = blocks.by_phase("backward")
    if not (buckets & blocks.at_peak).any():
        return None
    others = np.unique(blocks.start[~backward])
    after = np.append(others, blocks.ticks)[np.searchsorted(others, blocks.start)]
    gradients = backward & (blocks.end >= after) & ~blocks.stays
    if (gradients & (blocks.passes_survived > 0)).any():
        return None  # Accumulated gradients (`no_sync`) are never views of the buckets.
    held = int(blocks.size[gradients & blocks.at_peak].sum())
    if held < _SHARE * int(blocks.size[buckets & blocks.at_peak].sum()):
        return None
    return cause(
        facts,
        "Gradients are held twice",
        gradients,
        "are gradients that DDP's buckets hold as well",
        "Pass gradient_as_bucket_view=True to DistributedDataParallel",
        end=np.where(gradients, np.minimum(blocks.end, blocks.start + _LIFE), blocks.end),
    )
