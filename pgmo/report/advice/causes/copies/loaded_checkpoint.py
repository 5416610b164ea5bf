"""A checkpoint that stays on the device after it was loaded. Report: karpathy/nanoGPT#236."""

import numpy as np

from pgmo.report.advice.all_blocks import AllBlocks, Mask
from pgmo.report.advice.facts import Facts, Hint, cause

LOADED = r"serialization\.py:\d+ in (?:restore_location|persistent_load|load_tensor)$"
"""Line in the stack of every tensor that torch.load allocates."""

_FEWEST = 8
"""Minimum number of weights in a checkpoint."""

_STATES = 2
"""Maximum number of state tensors of an optimizer per weight; Adam has two."""


def loaded_checkpoint(facts: Facts) -> Hint | None:
    """Return a hint if a checkpoint stays in memory after the model has copied its weights.

    An optimizer may take loaded tensors as its state. These do not count.
    """
    blocks = facts.blocks
    loaded = blocks.by_line(LOADED) & (blocks.stays | (blocks.passes_survived > 1))
    if np.count_nonzero(loaded) < _FEWEST or not len(blocks.passes):
        return None
    weights = blocks.by_phase("other") & ~loaded & (blocks.passes_survived > 1)
    if not weights.any():
        return None
    unused = _unused(blocks, loaded, weights)
    return cause(
        facts,
        "A checkpoint stays on the device",
        unused,
        "were loaded from a file, and the model has its own copy",
        'Load the file to the host (map_location="cpu"), or delete the checkpoint '
        "(`del checkpoint`) after load_state_dict",
    )


def _unused(blocks: AllBlocks, loaded: Mask, weights: Mask) -> Mask:
    """Return which loaded blocks neither model nor optimizer can use, shape (n,).

    Of each size, an optimizer without state of its own may use `_STATES` blocks per weight.
    """
    own_state = blocks.by_phase("optimizer") & (blocks.stays | (blocks.passes_survived > 1))
    unused = np.zeros(len(loaded), np.bool_)
    for size in np.unique(blocks.size[loaded]).tolist():
        alike = blocks.size == size
        count = np.count_nonzero(weights & alike)
        used = 0 if (own_state & alike).any() else _STATES * count
        rows = np.flatnonzero(loaded & alike)
        unused[rows[: min(count, max(0, len(rows) - used))]] = True
    return unused
