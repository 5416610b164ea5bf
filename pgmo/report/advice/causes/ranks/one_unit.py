"""Cause: FSDP shards a whole model as one unit. Report: pytorch/tutorials#1861."""

import numpy as np
from numpy.typing import NDArray

from pgmo.report.advice.all_blocks import AllBlocks, Mask
from pgmo.report.advice.causes.ranks.not_resharded import PARAMETERS
from pgmo.report.advice.facts import Facts, Hint, cause

_BUFFER = r"_fsdp_collectives\.py:\d+ in (?:foreach_all_gather|foreach_reduce)$"

_FEWEST_LAYERS = 4
"""Minimum number of gathered blocks of one size. With fewer blocks, they are not layers of a
model."""

_AT_ONCE = 2
"""Number of layers gathered at once with the fix: the running layer and the next layer."""


def one_unit(facts: Facts) -> Hint | None:
    """Return a hint if all layers of a model are gathered at once."""
    blocks = facts.blocks
    gathered = blocks.by_line(PARAMETERS)
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
        "are parameters that FSDP gathers from all ranks, their gradients and buffers",
        "Call fully_shard on each layer, and then on the whole model (pass an auto_wrap_policy to "
        "the older FullyShardedDataParallel)",
        left=left,
    )


def _is_one_unit(blocks: AllBlocks, at_peak: Mask) -> bool:
    """Return whether the requests of the parameters at the peak are consecutive."""
    first, last = blocks.start[at_peak].min(), blocks.start[at_peak].max()
    between = (first <= blocks.start) & (blocks.start <= last)
    return bool(np.count_nonzero(between) == np.count_nonzero(at_peak))


def _gradients(blocks: AllBlocks, sizes: NDArray[np.int64]) -> Mask:
    """Return which blocks are gradients of gathered parameters, shape (n,)."""
    found: Mask = blocks.by_phase("backward") & np.isin(blocks.size, sizes)
    return found
