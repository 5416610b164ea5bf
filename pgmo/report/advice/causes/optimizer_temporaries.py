"""Temporaries of an optimizer that steps all parameters at once. Report: pytorch/pytorch#97712."""

from pgmo.report.advice.facts import Facts, Hint, cause


def optimizer_temporaries(facts: Facts) -> Hint | None:
    """Return a hint if the peak is within an optimizer's step, because of its temporaries."""
    blocks = facts.blocks
    return cause(
        facts,
        "The optimizer's temporaries make the peak",
        blocks.by_phase("optimizer") & ~blocks.stays,
        "are requested within optimizer.step() and freed there",
        "Pass fused=True, which needs none, or foreach=False, which needs those of one parameter "
        "at a time",
    )
