"""Cause: a tensor grows by concatenation. Report: lotus-data/lotus#16."""

import numpy as np

from pgmo.report.advice.facts import Facts, Hint, cause

_FEWEST = 4
"""Minimum number of times that the tensor grows."""

_LATE = 2
"""Maximum number of requests between the new tensor's allocation and the old tensor's free."""


def grown_by_cat(facts: Facts) -> Hint | None:
    """Return a hint if the peak holds a growing tensor both before and after a `cat`."""
    blocks = facts.blocks
    joined = blocks.by_operator(r"\.cat$") & (blocks.tag >= 0)
    end = blocks.end.copy()
    grown = np.zeros(len(end), np.bool_)
    for tag in np.unique(blocks.tag[joined & blocks.at_peak]).tolist():
        rows = np.flatnonzero(joined & (blocks.tag == tag))
        rows = rows[np.argsort(blocks.start[rows], kind="stable")]
        old, new = rows[:-1], rows[1:]
        follows = (blocks.size[new] > blocks.size[old]) & (blocks.start[new] < blocks.end[old])
        follows &= blocks.end[old] <= blocks.start[new] + _LATE
        if np.count_nonzero(follows) < _FEWEST:
            continue
        grown[old[follows]] = True
        end[old[follows]] = blocks.start[new[follows]]
    return cause(
        facts,
        "A tensor grows by concatenation",
        grown,
        "are old copies of a tensor that `cat` extends, alive together with the new one",
        "Allocate the tensor once and write into it, or collect the parts in a list (results on "
        "the host, with `.cpu()`)",
        end=end,
    )
