"""Cause: a large broadcast result is reduced at once. Report: Maghoumi/pytorch-softdtw-cuda#23."""

import numpy as np

from pgmo.report.advice.facts import Facts, Hint, cause

_ELEMENTWISE = r"\.(?:sub|add|mul|div|eq|ne|lt|gt|maximum|minimum)$"
_ELEMENTWISE_ONE = r"\.(?:pow|square|abs|exp|neg|sqrt|mul|_to_copy)$"
_REDUCTION = r"\.(?:sum|mean|norm|linalg_vector_norm|amax|amin|max|min|any|all|argmin|argmax)$"

_TIMES = 8
"""Minimum ratio of the result's size to any earlier live block, and to the reduced result."""

_FARTHEST = 4
"""Maximum number of requests from the broadcast to its reduction."""


def broadcast_differences(facts: Facts) -> Hint | None:
    """Return a hint if a result is far larger than its operands, and is reduced right away."""
    blocks = facts.blocks
    large = blocks.at_peak & (blocks.size >= blocks.peak // 10) & ~blocks.by_phase("backward")
    large &= blocks.by_operator(_ELEMENTWISE)
    chain = blocks.by_operator(_ELEMENTWISE_ONE)
    reduction = blocks.by_operator(_REDUCTION)
    gradient_sums = reduction & blocks.by_phase("backward")
    found = np.zeros(len(large), np.bool_)
    for row in np.flatnonzero(large).tolist():
        size, start = int(blocks.size[row]), int(blocks.start[row])
        alive = (blocks.start < start) & (start < blocks.end)
        if int(blocks.size[alive].max(initial=0)) * _TIMES > size:
            continue
        near = (start < blocks.start) & (blocks.start <= start + _FARTHEST)
        sums = np.flatnonzero(near & reduction)
        if not len(sums) or int(blocks.size[sums[0]]) * _TIMES > size:
            continue
        between = near & (blocks.start < blocks.start[sums[0]])
        if (between & ~(chain & (blocks.size == size))).any():
            continue
        found |= (blocks.size == size) | (gradient_sums & (blocks.size * _TIMES >= size))
    return cause(
        facts,
        "A broadcast that is summed at once",
        found,
        "hold a broadcast result, which is far larger than its operands and reduced right away",
        "Use an operation that does not allocate this result: torch.cdist for distances, einsum or "
        "a matrix product for sums of products",
    )
