"""Causes in distributed programs, with DDP and FSDP.

Reports: pytorch/pytorch#41954 (buckets), pytorch/tutorials#1861 (a whole model as one unit),
saforem2/ezpz#173 (parameters kept until the backward pass), instructlab/training#307 (gathered
ahead).
"""

import numpy as np

from pgmo.report.advice.all_blocks import AllBlocks, Mask
from pgmo.report.advice.facts import Facts, Hint, cause, hint_of_fix
from pgmo.units import format_bytes

_BUCKETS = r"distributed\.py:\d+ in (?:_ddp_init_helper|_pre_forward|_rebuild_buckets)$"
_LIFE = 2
"""Lifetime of a gradient with the fix, in requests: DDP frees it once it is in a bucket."""

_SHARE = 0.8
"""Minimum ratio of the gradients' bytes at the peak to the buckets' bytes."""

_PARAMETERS = r"_fsdp_param\.py:\d+ in (?:alloc|init)_all_gather_outputs$"
"""Pattern of a stack line of a parameter that FSDP has gathered."""

_GATHER = r"_fsdp_collectives\.py:\d+ in foreach_all_gather$"
"""Pattern of a stack line of the buffer into which FSDP gathers the parameters of a unit."""

_BUFFER = r"_fsdp_collectives\.py:\d+ in (?:foreach_all_gather|foreach_reduce)$"
"""Pattern of a stack line of buffers into which FSDP gathers parameters or reduces gradients."""

_FEWEST_LAYERS = 4
"""Minimum number of gathered blocks of one size that count as layers of a model."""

_LAYERS_AT_ONCE = 2
"""Number of layers gathered at once with the fix: the running layer and the next layer."""

_FEWEST_KEPT = 4
"""Minimum number of units with kept parameters. By default, only the root unit keeps parameters."""

_IN_FORWARD, _IN_BACKWARD = 2, 1
"""Number of buffers that are alive at once by default. In the forward pass, FSDP fills the next
unit's buffer while it copies parameters out of the running unit's buffer. In the backward pass, it
fills the next unit's buffer after this copy."""


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


def one_unit(facts: Facts) -> Hint | None:
    """Return a hint if FSDP gathers all layers of a model at once."""
    blocks = facts.blocks
    gathered = blocks.by_line(_PARAMETERS)
    at_peak = gathered & blocks.at_peak
    sizes, counts = np.unique(blocks.size[at_peak], return_counts=True)
    layers = counts >= _FEWEST_LAYERS
    if not layers.any() or not _are_consecutive(blocks, at_peak):
        return None
    number = int(counts[layers].min())
    of_layers = int((sizes * counts)[layers].sum())
    alone = int((sizes * counts)[~layers].sum())
    left = (alone + _LAYERS_AT_ONCE * of_layers / number) / (alone + of_layers)
    gradients = blocks.by_phase("backward") & np.isin(blocks.size, sizes)
    return cause(
        facts,
        "All parameters are gathered at once",
        gathered | blocks.by_line(_BUFFER) | gradients,
        "are parameters that FSDP gathers from all ranks, their gradients and buffers",
        "Call fully_shard on each layer, and then on the whole model (pass an auto_wrap_policy to "
        "the older FullyShardedDataParallel)",
        left=left,
    )


def _are_consecutive(blocks: AllBlocks, some: Mask) -> bool:
    """Return whether no other request lies between the requests of some blocks."""
    first, last = blocks.start[some].min(), blocks.start[some].max()
    between = (first <= blocks.start) & (blocks.start <= last)
    return bool(np.count_nonzero(between) == np.count_nonzero(some))


def not_resharded(facts: Facts) -> Hint | None:
    """Return a hint if FSDP keeps a unit's parameters after the unit's forward pass.

    With the fix, FSDP frees a unit's parameters when it gathers the next unit. While the backward
    pass runs unit i + 1, FSDP gathers unit i again, and frees unit i + 2.
    """
    blocks = facts.blocks
    kept = blocks.by_line(_PARAMETERS) & blocks.by_phase("forward") & ~blocks.stays
    rows = blocks.in_order(kept & (blocks.passes_survived > 0))
    starts = np.diff(blocks.start[rows], prepend=-2) > 1
    number = np.searchsorted(blocks.passes, blocks.start[rows[starts]])
    is_root = np.diff(number, prepend=-1) > 0  # FSDP gathers the root unit first.
    units = np.split(rows, np.flatnonzero(starts))[1:]
    units = [unit for unit, root in zip(units, is_root, strict=True) if not root]
    size, start, end = [], [], []
    for one, after, second in zip(units, units[1:], units[2:], strict=False):
        freed = blocks.end[second].max()
        if blocks.end[one].max() > freed:  # Otherwise the units are of two iterations.
            size.append(blocks.size[one].sum())
            start.append(blocks.start[after].min())
            end.append(freed)
    at_peak = sum(bool(blocks.at_peak[one].all()) for one in units)
    if at_peak < _FEWEST_KEPT or not size:
        return None
    return hint_of_fix(
        facts,
        "Gathered parameters are kept for the backward pass",
        f"FSDP holds the gathered parameters of {at_peak} units at the peak of "
        f"{format_bytes(blocks.peak)}, because it keeps them after the forward pass. Pass "
        "reshard_after_forward=True to fully_shard, which then gathers them again in the backward "
        "pass",
        blocks.saving_within(np.array(size), np.array(start), np.array(end)),
    )


def gathered_ahead(facts: Facts) -> Hint | None:
    """Return a hint if FSDP gathers more units ahead than by default, and so raises the peak.

    By default, FSDP allocates each buffer only when it frees an earlier buffer.
    """
    blocks = facts.blocks
    rows = blocks.in_order(blocks.by_line(_GATHER))
    start, end = blocks.start[rows], blocks.end[rows]
    at_once = np.where(blocks.by_phase("backward")[rows], _IN_BACKWARD, _IN_FORWARD)
    earlier = np.arange(len(rows)) - at_once
    until = np.where(earlier < 0, start, end[np.maximum(0, earlier)])
    held = blocks.size[rows][blocks.at_peak[rows]]
    return hint_of_fix(
        facts,
        "Parameters are gathered too early",
        f"FSDP holds buffers of {len(held)} units at the peak, {format_bytes(int(held.sum()))} of "
        f"{format_bytes(blocks.peak)}: it gathers their parameters ahead. Pass fewer modules to "
        "set_modules_to_forward_prefetch and set_modules_to_backward_prefetch, or do not call them",
        blocks.saving_within(blocks.size[rows], start, np.clip(until, start, end)),
    )
