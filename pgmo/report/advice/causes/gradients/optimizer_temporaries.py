"""Cause: an optimizer steps all parameters at once. Report: pytorch/pytorch#97712."""

from pgmo.report.advice.all_blocks import AllBlocks, Mask
from pgmo.report.advice.facts import Facts, Hint, cause

_OF_ONE = 2
"""Number of temporaries of one parameter that are alive at once."""


def optimizer_temporaries(facts: Facts) -> Hint | None:
    """Return a hint if the peak is within an optimizer's step, because of its temporaries."""
    blocks = facts.blocks
    state = blocks.stays | ~blocks.without("forward")
    temporaries = blocks.by_phase("optimizer") & _of_all_parameters(blocks) & ~state
    sizes = blocks.size[temporaries & blocks.at_peak]
    # Stepping one parameter at a time needs a few temporaries of that parameter's size.
    left = min(1.0, _OF_ONE * sizes.max(initial=0) / max(1, sizes.sum()))
    return cause(
        facts,
        "The optimizer's temporaries make the peak",
        temporaries,
        "are requested and freed within optimizer.step()",
        "Pass fused=True (Adam, AdamW, SGD, Adagrad), which needs no temporaries, or "
        "foreach=False, which needs temporaries of one parameter at a time",
        left=left,
    )


def _of_all_parameters(blocks: AllBlocks) -> Mask:
    """Return which blocks torch's optimizers request for all parameters at once, shape (n,).

    The fix is only for torch's optimizers: others have neither `fused` nor `foreach`.
    """
    in_torch = blocks.by_line(r"/?\w+\.py:\d+ in _multi_tensor_")
    return in_torch | (blocks.by_operator(r"\._foreach_") & ~blocks.by_line(""))
