"""Cause: attention scores stay for the backward pass. Report: vllm-project/speculators#881."""

import numpy as np

from pgmo.report.advice.all_blocks import AllBlocks, Mask
from pgmo.report.advice.facts import Facts, Hint, cause

_SOFTMAX = r"\._?softmax"
_OF_SCORES = (
    r"\.(bmm|baddbmm|matmul|mul|div|add|sub|masked_fill|where|clone|_to_copy|native_dropout)"
)
_PRODUCT_OF_POSITIONS = r"\.(bmm|baddbmm|matmul|einsum)$"
_PRODUCT = r"\.(bmm|baddbmm|matmul|einsum|mm|addmm|linear|convolution)$"
_FARTHEST = 8
"""Maximum number of requests from the product of queries and keys to its softmax. Scaling, masking
and casting make a few."""

_FEWEST_LAYERS = 2


def attention_scores(facts: Facts) -> Hint | None:
    """Return a hint if several layers keep softmax results of equal size at the peak."""
    blocks = facts.blocks
    softmax = blocks.by_operator(_SOFTMAX) & ~blocks.by_operator("log_softmax")
    kept = softmax & blocks.at_peak & (blocks.size >= blocks.peak // 100)
    kept &= _follows_product(blocks, kept)
    if not kept.any():
        return None
    sizes, counts = np.unique(blocks.size[kept], return_counts=True)
    size = int(sizes[np.argmax(sizes * counts)])
    if counts.max() < _FEWEST_LAYERS:
        return None
    scores = softmax | blocks.by_operator(_OF_SCORES)
    # Copies may have half as many bytes per element, and masks a quarter.
    return cause(
        facts,
        "Attention keeps its scores",
        scores & np.isin(blocks.size, (size, size // 2, size // 4)),
        "are attention scores of each pair of positions",
        "Use torch.nn.functional.scaled_dot_product_attention "
        '(attn_implementation="sdpa" in transformers), which does not keep them',
    )


def _follows_product(blocks: AllBlocks, softmax: Mask) -> Mask:
    """Return which softmaxes are taken of a product of positions, shape (n,).

    The last product of the same size before the softmax decides. Scores of classes, or of a
    router's experts, are products with a layer's weights, not of positions.
    """
    found = np.zeros(len(softmax), np.bool_)
    of_positions = blocks.by_operator(_PRODUCT_OF_POSITIONS)
    products = blocks.by_operator(_PRODUCT)
    for size in np.unique(blocks.size[softmax]).tolist():
        rows = np.flatnonzero(products & np.isin(blocks.size, (size, size // 2)))
        rows = rows[np.argsort(blocks.start[rows], kind="stable")]
        own = np.flatnonzero(softmax & (blocks.size == size))
        last = np.searchsorted(blocks.start[rows], blocks.start[own]) - 1
        own, row = own[last >= 0], rows[last[last >= 0]]
        near = blocks.start[own] - blocks.start[row] <= _FARTHEST
        found[own] = near & of_positions[row]
    return found
