"""Cause: logits of all tokens at once, with their log-probabilities and gradients.

Reports: NVIDIA-NeMo/Automodel#3907, QwenLM/Qwen3#570 (with a copy in float32).
"""

from pgmo.report.advice.all_blocks import AllBlocks, Mask
from pgmo.report.advice.facts import Facts, Hint, cause

_LOSS = r"log_softmax|cross_entropy|nll_loss"
_ALIKE = 1 / 32
"""Maximum share by which logits exceed the loss's tensors, because shifted logits lack a token."""

_CHUNKS = 16
"""Number of chunks into which the fix splits the tokens. The computed saving assumes it."""

_UNIT = ("tokens", "pixels")
_FIX = (
    "Compute the loss over chunks of the tokens, each with its own part of the last layer, or "
    "use a fused linear cross-entropy (Liger, cut-cross-entropy)",
    "Compute the loss over parts of the images, each with its own part of the last layer",
)


def full_logits(facts: Facts) -> Hint | None:
    """Return a hint if the loss over words or classes makes the peak."""
    blocks = facts.blocks
    of_loss = blocks.by_operator(_LOSS) & (blocks.size >= blocks.peak // 50)
    if not (of_loss & blocks.at_peak).any():
        return None
    largest = int(blocks.size[of_loss & blocks.at_peak].max())
    alike = _of_similar_size(blocks, largest) | _of_similar_size(blocks, largest // 2)
    if blocks.by_operator(r"ctc_loss").any():
        return None  # CTC needs the log-probabilities of the whole sequence.
    of_images = bool((blocks.by_operator("nll_loss2d") & of_loss).any())
    return cause(
        facts,
        "The loss's own tensors make the peak",
        of_loss | alike,
        f"are logits, log-probabilities and their gradients, of all {_UNIT[of_images]} at once",
        _FIX[of_images],
        left=1 / _CHUNKS,
    )


def _of_similar_size(blocks: AllBlocks, size: int) -> Mask:
    """Return which blocks of a pass are as large as the loss's tensors, or slightly larger."""
    of_pass = ~(blocks.stays | blocks.by_phase("optimizer") | (blocks.passes_survived > 1))
    found: Mask = of_pass & (size <= blocks.size) & (blocks.size <= size * (1 + _ALIKE))
    return found
