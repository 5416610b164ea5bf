"""Attention whose scores stay for the backward pass. Report: vllm-project/speculators#881."""

import numpy as np

from pgmo.report.advice.facts import Facts, Hint, cause

_SOFTMAX = r"\._?softmax"
_OF_SCORES = (
    r"\.(bmm|baddbmm|matmul|mul|div|add|sub|masked_fill|where|clone|_to_copy|native_dropout)"
)
_FEWEST_LAYERS = 2


def attention_scores(facts: Facts) -> Hint | None:
    """Return a hint if softmax is taken of several large blocks, each a layer's scores."""
    blocks = facts.blocks
    softmax = blocks.by_operator(_SOFTMAX) & ~blocks.by_operator("log_softmax")
    kept = softmax & blocks.at_peak & (blocks.size >= blocks.peak // 100)
    if not kept.any():
        return None
    sizes, counts = np.unique(blocks.size[kept], return_counts=True)
    size = int(sizes[np.argmax(sizes * counts)])
    if counts.max() < _FEWEST_LAYERS:
        return None
    scores = softmax | blocks.by_operator(_OF_SCORES)
    return cause(
        facts,
        "Attention keeps its scores",
        scores & np.isin(blocks.size, (size, size // 2, size // 4)),
        "are attention scores of each pair of positions",
        "Use torch.nn.functional.scaled_dot_product_attention "
        '(attn_implementation="sdpa" in transformers), which does not keep them',
    )
