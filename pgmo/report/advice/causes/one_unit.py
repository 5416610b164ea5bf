"""FSDP of a whole model as one unit. Report: pytorch/tutorials#1861."""

import numpy as np
from numpy.typing import NDArray

from pgmo.report.advice.all_blocks import AllBlocks, Mask
from pgmo.report.advice.facts import Facts, Hint, cause

_PARAMETERS = r"_fsdp_param\.py:\d+ in (?:alloc|init)_all_gather_outputs$"
_BUFFER = r"_fsdp_collectives\.py:\d+ in (?:foreach_all_gather|foreach_reduce)$"

_FEWEST_LAYERS = 4
"""Minimum number of blocks of one size that makes layers of a unit."""

_AT_ONCE = 2
"""Layers that FSDP gathers at once: the one that runs and the next one."""


def one_unit(facts: Facts) -> Hint | None:
    """Return a hint if all layers of a model are gathered at once."""
    blocks = facts.blocks
    gathered = blocks.by_line(_PARAMETERS)
    at_peak = gathered & blocks.at_peak
    sizes, counts = np.unique(blocks.size[at_peak], return_counts=True)
    layers = counts >= _FEWEST_LAYERS
    if not layers.any() or not _is_one_unit(blocks, at_peak):
        return None
    number = int(counts[layers].min())
    of_layers = int((sizes * counts)[layers].sum())
    alone = int((sizes * counts)[~layers].sum())
    left = (alone + _AT_ONCE * of_layers / number) / (alone + of_layers)
    return cause(
        facts,
        "All parameters are gathered at once",
        gathered | blocks.by_line(_BUFFER) | _gradients(blocks, sizes),
        "are parameters that FSDP has gathered from all ranks, and buffers for them",
        "Call fully_shard on each layer before the whole model (auto_wrap_policy in the older "
        "FullyShardedDataParallel)",
        left=left,
    )


def _is_one_unit(blocks: AllBlocks, at_peak: Mask) -> bool:
    """Return whether nothing but these parameters is requested from the first to the last."""
    first, last = blocks.start[at_peak].min(), blocks.start[at_peak].max()
    between = (first <= blocks.start) & (blocks.start <= last)
    return bool(np.count_nonzero(between) == np.count_nonzero(at_peak))


def _gradients(blocks: AllBlocks, sizes: NDArray[np.int64]) -> Mask:
    """Return which blocks are gradients of gathered parameters, shape (n,)."""
    found: Mask = blocks.by_phase("backward") & np.isin(blocks.size, sizes)
    return found
