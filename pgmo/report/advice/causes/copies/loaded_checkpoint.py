"""Cause: a checkpoint stays on the device after it was loaded.

Reports: karpathy/nanoGPT#236, PrimeIntellect-ai/prime-rl#2154 (the state itself is on the host).
"""

import numpy as np

from pgmo.report.advice.all_blocks import AllBlocks, Mask
from pgmo.report.advice.facts import Facts, Hint, cause

LOADED = r"serialization\.py:\d+ in (?:restore_location|persistent_load|load_tensor)$"
"""Stack line of every tensor that torch.load allocates."""

_FEWEST = 8
"""Minimum number of weights in a checkpoint."""

_STATES = 2
"""Maximum number of state tensors of an optimizer per weight; Adam has two."""

_STEP = r" in \w*step$"
"""Stack line of tensors that the step of an optimizer requests."""


def loaded_checkpoint(facts: Facts) -> Hint | None:
    """Return a hint if a checkpoint stays in memory after the model has copied its weights.

    Loaded tensors that an optimizer takes as its state are excluded. If the optimizer's steps copy
    tensors of the same sizes to the device, its state is on the host, so they are not excluded.
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
        "were loaded from a file, and neither model nor optimizer uses them",
        'Load the file to the host (map_location="cpu"), or delete the checkpoint '
        "(`del checkpoint`) after load_state_dict",
    )


def _unused(blocks: AllBlocks, loaded: Mask, weights: Mask) -> Mask:
    """Return which loaded blocks neither model nor optimizer can use, shape (n,).

    An optimizer that has allocated no state may use `_STATES` loaded blocks per weight of each
    size.
    """
    own_state = blocks.by_phase("optimizer") & (blocks.stays | (blocks.passes_survived > 1))
    from_host, steps = _from_host(blocks), max(1, len(blocks.passes) - 1)
    unused = np.zeros(len(loaded), np.bool_)
    for size in np.unique(blocks.size[loaded]).tolist():
        alike = blocks.size == size
        count = np.count_nonzero(weights & alike)
        copied = np.count_nonzero(from_host & alike) >= steps * count > 0
        used = 0 if copied or (own_state & alike).any() else _STATES * count
        rows = np.flatnonzero(loaded & alike)
        unused[rows[: min(count, max(0, len(rows) - used))]] = True
    return unused


def _from_host(blocks: AllBlocks) -> Mask:
    """Return which temporaries of optimizer steps may be copies from the host, shape (n,).

    A copy whose predecessor has half or twice its size, and is alive, may be a cast on the device.
    """
    found = blocks.by_line(_STEP) & blocks.by_operator(r"\._to_copy$") & ~blocks.stays
    found &= (blocks.passes_survived == 0) & (blocks.start >= blocks.passes.min())
    order = np.argsort(blocks.start, kind="stable")
    rows, before = order[1:], order[:-1]
    ratio = blocks.size[rows] / np.maximum(1, blocks.size[before])
    cast = np.isin(ratio, (0.5, 2.0)) & (blocks.end[before] > blocks.start[rows])
    found[rows[cast]] = False
    return found
