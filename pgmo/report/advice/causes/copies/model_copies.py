"""Cause: a copy of the weights stays on the device. Report: facebookresearch/pytext#204."""

from pgmo.report.advice.all_blocks import AllBlocks, Mask
from pgmo.report.advice.facts import Facts, Hint, cause

_DEEPCOPY = r"copy\.py:\d+ in deepcopy$"
_OF_PARAMETER = r"parameter\.py:\d+ in __deepcopy__$"
_LAYERS = (
    r"copy\.py:\d+ in _reconstruct\n(?:.*\n)*"
    r".*copy\.py:\d+ in deepcopy\n(?!.*copy\.py:).* in (?:<listcomp>|_?(?:get_)?clones?)(?:\n|$)"
)
"""Stack of modules that are copied in a list. For example, torch.nn.TransformerEncoder makes its
layers as copies of one layer."""

_FEWEST_PASSES = 2
"""Minimum number of backward passes in a copy's lifetime. The copy of a batch lives through one
pass."""


def model_copies(facts: Facts) -> Hint | None:
    """Return a hint if deep copies of a model are alive at the peak."""
    blocks = facts.blocks
    copies = blocks.by_line(_DEEPCOPY) & ~blocks.by_stack(_LAYERS)
    return cause(
        facts,
        "A copy of the model on the device",
        copies & blocks.at_peak & _are_of_models(blocks),
        "are deep copies, such as the best weights so far, an average or a reference model",
        "Keep the copies on the host (`.cpu()`) or in a file, and load them only for their use",
    )


def _are_of_models(blocks: AllBlocks) -> Mask:
    """Return which blocks are copies of parameters, or live as long as parameters, shape (n,)."""
    long: Mask = blocks.passes_survived >= _FEWEST_PASSES
    return long | blocks.stays | blocks.by_line(_OF_PARAMETER)
