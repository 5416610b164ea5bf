"""Causes in single operations: tensors that an equivalent computation does not need.

Reports: NVIDIA-NeMo/Automodel#3907, QwenLM/Qwen3#570 (logits), vllm-project/speculators#881
(attention scores), pytorch/pytorch#13882 (one-hot matrices), ByteDance-Seed/Depth-Anything-3#268 (a
mask per head), lotus-data/lotus#16 (growth by `cat`), Maghoumi/pytorch-softdtw-cuda#23 (a broadcast
result), open-lm-engine/lm-engine#228 (wider copies).
"""

import re

import numpy as np

from pgmo.profiler.tag import Tag
from pgmo.report.advice.all_blocks import AllBlocks, Mask
from pgmo.report.advice.facts import Facts, Hint, cause

_LOSS = r"log_softmax|cross_entropy|nll_loss"
_ALIKE = 1 / 32
"""Share by which logits may be larger than the loss's tensors. With shifted labels, the loss's
tensors have one token less than the logits."""

_CHUNKS = 16
"""Number of chunks into which the fix splits the tokens, for the computed saving."""

_UNIT = ("tokens", "pixels")
_FIX = (
    "Compute the loss over chunks of the tokens, each with its own part of the last layer, or "
    "use a fused linear cross-entropy (Liger, cut-cross-entropy)",
    "Compute the loss over parts of the images, each with its own part of the last layer",
)

_SOFTMAX = r"\._?softmax"
_OF_SCORES = (
    r"\.(bmm|baddbmm|matmul|mul|div|add|sub|masked_fill|where|clone|_to_copy|native_dropout)"
)
_PRODUCT_OF_POSITIONS = r"\.(bmm|baddbmm|matmul|einsum)$"
_PRODUCT = r"\.(bmm|baddbmm|matmul|einsum|mm|addmm|linear|convolution)$"
_SOFTMAX_AFTER_PRODUCT = 8
"""Maximum number of requests from the product of queries and keys to its softmax. Scaling, masking
and casting make a few."""

_FEWEST_LAYERS = 2
"""Minimum number of softmax results of one size at the peak. Each layer keeps one result."""

_FEWEST_GROWTHS = 4
"""Minimum number of times that a tensor grows."""

_FREED_LATE = 2
"""Maximum number of requests from the new tensor's request, inclusive, to the old tensor's free."""

_ELEMENTWISE = r"\.(?:sub|add|mul|div|eq|ne|lt|gt|maximum|minimum)$"
_ELEMENTWISE_ONE = r"\.(?:pow|square|abs|exp|neg|sqrt|mul|_to_copy)$"
_REDUCTION = r"\.(?:sum|mean|norm|linalg_vector_norm|amax|amin|max|min|any|all|argmin|argmax)$"

_TIMES_LARGER = 8
"""Minimum ratio of a broadcast's bytes to each earlier live block, and to the reduced result."""

_REDUCED_AFTER = 4
"""Maximum number of requests from the broadcast to its reduction."""

_NARROW = 0.5
"""Share of a wider copy's bytes that stays with the fix, because a fused operation saves its narrow
input."""

_FEWEST_COPIES = 2
"""Minimum number of wider copies of one origin at the peak. Each layer makes one copy."""


def full_logits(facts: Facts) -> Hint | None:
    """Return a hint if the loss over words or classes makes the peak."""
    blocks = facts.blocks
    of_loss = blocks.by_operator(_LOSS) & (blocks.size >= blocks.peak // 50)
    if not (of_loss & blocks.at_peak).any():
        return None
    if blocks.by_operator(r"ctc_loss").any():
        return None  # CTC needs the log-probabilities of the whole sequence.
    largest = int(blocks.size[of_loss & blocks.at_peak].max())
    of_pass = ~(blocks.outlive(2) | blocks.by_phase("optimizer"))
    alike = np.zeros(len(of_pass), np.bool_)
    for size in (largest, largest // 2):
        alike |= (size <= blocks.size) & (blocks.size <= size * (1 + _ALIKE))
    of_images = bool((blocks.by_operator("nll_loss2d") & of_loss).any())
    return cause(
        facts,
        "The loss's own tensors make the peak",
        of_loss | (of_pass & alike),
        f"are logits, log-probabilities and their gradients, of all {_UNIT[of_images]} at once",
        _FIX[of_images],
        left=1 / _CHUNKS,
    )


def attention_scores(facts: Facts) -> Hint | None:
    """Return a hint if several layers keep softmax results of equal size at the peak."""
    blocks = facts.blocks
    softmax = blocks.by_operator(_SOFTMAX) & ~blocks.by_operator("log_softmax")
    kept = softmax & blocks.at_peak & (blocks.size >= blocks.peak // 100)
    kept &= _follows_product(blocks, kept)
    if not kept.any():
        return None
    sizes, counts = np.unique(blocks.size[kept], return_counts=True)
    most = np.argmax(sizes * counts)
    size = int(sizes[most])
    if counts[most] < _FEWEST_LAYERS:
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
    """Return which softmax results are of a product of positions, shape (n,).

    Consider products with the softmax's size, or half of it. The last one before the softmax must
    be a product of positions, at most `_SOFTMAX_AFTER_PRODUCT` requests earlier. Scores of classes,
    or of a router's experts, are products with a layer's weights, not of positions.
    """
    found = np.zeros(len(softmax), np.bool_)
    of_positions = blocks.by_operator(_PRODUCT_OF_POSITIONS)
    products = blocks.by_operator(_PRODUCT)
    for size in np.unique(blocks.size[softmax]).tolist():
        rows = blocks.in_order(products & np.isin(blocks.size, (size, size // 2)))
        own = np.flatnonzero(softmax & (blocks.size == size))
        last = np.searchsorted(blocks.start[rows], blocks.start[own]) - 1
        own, row = own[last >= 0], rows[last[last >= 0]]
        near = blocks.start[own] - blocks.start[row] <= _SOFTMAX_AFTER_PRODUCT
        found[own] = near & of_positions[row]
    return found


def one_hot(facts: Facts) -> Hint | None:
    """Return a hint if one-hot matrices make the peak."""
    return cause(
        facts,
        "A matrix of zeros and ones",
        facts.blocks.by_operator(r"\.one_hot$"),
        "are one-hot matrices",
        "Pick by indices instead, with `gather`, `nll_loss` or an embedding",
    )


def repeated_tensors(facts: Facts) -> Hint | None:
    """Return a hint if repeated tensors make the peak."""
    return cause(
        facts,
        "A tensor repeated in memory",
        facts.blocks.by_operator(r"\.(?:repeat|repeat_interleave|tile)$"),
        "are results of `repeat`, `repeat_interleave` or `tile`, which copy a tensor several times",
        "Use a dimension of size 1, which broadcasts (a mask of [batch, 1, length, length] for all "
        "heads), `expand`, or enable_gqa=True for keys and values",
    )


def grown_by_cat(facts: Facts) -> Hint | None:
    """Return a hint if the peak holds both copies of a tensor that `cat` extends, old and new."""
    blocks = facts.blocks
    joined = blocks.by_operator(r"\.cat$") & (blocks.tag >= 0)
    end = blocks.end.copy()
    grown = np.zeros(len(end), np.bool_)
    for tag in np.unique(blocks.tag[joined & blocks.at_peak]).tolist():
        rows = blocks.in_order(joined & (blocks.tag == tag))
        old, new = rows[:-1], rows[1:]
        follows = (blocks.size[new] > blocks.size[old]) & (blocks.start[new] < blocks.end[old])
        follows &= blocks.end[old] <= blocks.start[new] + _FREED_LATE
        if np.count_nonzero(follows) < _FEWEST_GROWTHS:
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


def broadcast_differences(facts: Facts) -> Hint | None:
    """Return a hint if a broadcast is far larger than its operands, and is reduced right away."""
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
        if int(blocks.size[alive].max(initial=0)) * _TIMES_LARGER > size:
            continue
        near = (start < blocks.start) & (blocks.start <= start + _REDUCED_AFTER)
        sums = np.flatnonzero(near & reduction)
        if not len(sums) or int(blocks.size[sums[0]]) * _TIMES_LARGER > size:
            continue
        between = near & (blocks.start < blocks.start[sums[0]])
        if (between & ~(chain & (blocks.size == size))).any():
            continue
        found |= (blocks.size == size) | (gradient_sums & (blocks.size * _TIMES_LARGER >= size))
    return cause(
        facts,
        "A broadcast that is summed at once",
        found,
        "hold a broadcast result, which is far larger than its operands and reduced right away",
        "Use an operation that does not allocate this result: torch.cdist for distances, einsum or "
        "a matrix product for sums of products",
    )


def wide_copies(facts: Facts) -> Hint | None:
    """Return a hint if the user's code keeps copies in a type twice as wide until the peak.

    Autocast also makes wider copies, but a line of PyTorch requests them, not the user's code.
    """
    blocks = facts.blocks
    by_user = blocks.by_tag(lambda tag: tag.stack[:1] == (tag.file,))
    copies = by_user & blocks.by_operator(r"\._to_copy$") & blocks.by_phase("forward")
    copies &= blocks.passes_survived > 0
    backward = blocks.by_phase("backward")
    wide = np.zeros(len(copies), np.bool_)
    left = np.zeros(len(copies))
    # One line may make wider and narrower copies, of different sizes.
    shown = np.flatnonzero(copies & blocks.at_peak)
    origins = np.unique(np.stack([blocks.tag[shown], blocks.size[shown]]), axis=1)
    for tag, size in origins.T.tolist():
        at_peak = shown[(blocks.tag[shown] == tag) & (blocks.size[shown] == size)]
        if len(at_peak) < _FEWEST_COPIES:
            continue
        if all(_has_narrow_source(blocks, row) for row in at_peak.tolist()):
            found = copies & (blocks.tag == tag) & (blocks.size == size)
            left[found] = _NARROW
            wide |= found | (backward & (blocks.size == size))
            wide |= _copied_back(blocks, copies, blocks.tags[tag], size // 2)
    return cause(
        facts,
        "Copies in a wider type are kept",
        wide,
        "are copies in a type twice as wide that stay for the backward pass",
        "Use one operation that computes in float inside (torch.nn.functional.rms_norm, "
        "layer_norm), or recompute the copies (torch.utils.checkpoint)",
        left=left,
    )


def _has_narrow_source(blocks: AllBlocks, row: int) -> bool:
    """Return whether a block of half the size is alive when this block is requested."""
    start = blocks.start[row]
    alive = (blocks.start < start) & (start < blocks.end)
    return bool((blocks.size[alive] == blocks.size[row] // 2).any())


def _copied_back(blocks: AllBlocks, copies: Mask, tag: Tag, size: int) -> Mask:
    """Return which copies the tag's function makes in the narrow type and uses itself, shape (n,).

    A copy counts as used if the function's next request has the copy's size, stays for the backward
    pass, and is no such copy itself.
    The function probably returns all other copies, so the fix does not avoid them.
    """
    own = blocks.by_tag(lambda one: _function(one) == _function(tag))
    results = own & (blocks.size == size) & (blocks.passes_survived > 0)
    back: Mask = copies & results
    return back & np.isin(blocks.start + 1, blocks.start[results & ~back])


def _function(tag: Tag) -> str:
    """Return file and function of the innermost stack line; "" without a stack."""
    return re.sub(r":\d+ in ", " ", tag.stack[0]) if tag.stack else ""
