"""Advice with figures: each rule examines the facts and returns a hint or nothing."""

from collections.abc import Callable

from pgmo.report.advice import left_over, peak, placement, trouble
from pgmo.report.advice.facts import Facts, Hint

__all__ = ["RULES", "Facts", "Hint", "advise"]

RULES: tuple[Callable[[Facts], Hint | None], ...] = (
    trouble.ran_out,
    trouble.leaking,
    trouble.numbers_kept,
    placement.fragmented,
    placement.private_pools,
    left_over.gradients_held,
    left_over.held_over,
    placement.two_slots,
    peak.activations,
    peak.logits,
    peak.optimizer_state,
    peak.optimizer_temporaries,
    peak.workspace,
    placement.several_streams,
    trouble.varying_sizes,
)
"""All rules."""

OF_A_MOMENT: tuple[Callable[[Facts], Hint | None], ...] = (
    placement.fragmented,
    placement.private_pools,
    peak.optimizer_state,
)
"""Rules that need no history."""


def advise(facts: Facts) -> tuple[Hint, ...]:
    """Return the hints that apply, the one about most bytes first."""
    rules = RULES if facts.explanation.moment is None else OF_A_MOMENT
    hints = [hint for rule in rules if (hint := rule(facts)) is not None]
    return tuple(sorted(hints, key=lambda hint: -hint.bytes))
