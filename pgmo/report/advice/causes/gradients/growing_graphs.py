"""Cause: autograd graphs of earlier iterations stay alive. Report: isds-neu/PeRCNN#3."""

import numpy as np

from pgmo.report.advice.facts import Facts, Hint, cause

_FEWEST_PASSES = 6
"""Minimum number of backward passes in the recording."""

_SHARE = 2 / 3
"""Minimum share of the passes in which an origin allocates a block that is never freed."""

_ORIGINS = 2
"""Minimum number of these origins. Blocks of a single origin are a list of results, not a graph."""


def growing_graphs(facts: Facts) -> Hint | None:
    """Return a hint if parts of most forward passes are never freed."""
    blocks = facts.blocks
    number = np.searchsorted(blocks.passes, blocks.start)  # passes before each block
    stays = blocks.by_phase("forward") & blocks.stays & (blocks.tag >= 0)
    count = len(blocks.passes)
    if count < _FEWEST_PASSES or facts.explanation.leaks.found:
        return None
    pairs = np.unique(np.stack([blocks.tag[stays], number[stays]]), axis=1)
    tags, passes = np.unique(pairs[0], return_counts=True)
    growing = stays & np.isin(blocks.tag, tags[passes >= _SHARE * count])
    if len(np.unique(blocks.tag[growing])) < _ORIGINS:
        return None
    return cause(
        facts,
        "Memory leaks",
        growing & (number < count - 1),
        f"were allocated by forward passes before the last of {count}, and never freed",
        "Detach the state that the next iteration continues from (`state = state.detach()`), and "
        "detach the outputs that you keep",
    )
