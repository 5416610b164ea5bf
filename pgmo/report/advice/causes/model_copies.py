"""A copy of the weights that stays on the device. Report: facebookresearch/pytext#204."""

from pgmo.report.advice.facts import Facts, Hint, cause

_DEEPCOPY = r"copy\.py:\d+ in deepcopy$"


def model_copies(facts: Facts) -> Hint | None:
    """Return a hint if deep copies that are alive at the peak make part of it."""
    blocks = facts.blocks
    return cause(
        facts,
        "A copy of the model on the device",
        blocks.by_line(_DEEPCOPY) & blocks.at_peak,
        "are deep copies, such as the best weights so far, an average or a reference model",
        "Keep them on the host (`.cpu()`), or in a file, and bring them back when they are needed",
    )
