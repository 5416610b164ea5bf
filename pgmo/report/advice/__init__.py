"""Advice with figures: each rule examines the facts and returns a hint or nothing.

causes/     a known fix, and by how much the peak falls with it
other       what holds memory, and what helps in general
"""

from collections.abc import Callable

from pgmo.report.advice import left_over, peak, placement, trouble
from pgmo.report.advice.causes.attention_scores import attention_scores
from pgmo.report.advice.causes.collected_results import collected_results
from pgmo.report.advice.causes.evaluation_with_gradients import evaluation_with_gradients
from pgmo.report.advice.causes.full_logits import full_logits
from pgmo.report.advice.causes.late_zero_grad import late_zero_grad
from pgmo.report.advice.causes.model_copies import model_copies
from pgmo.report.advice.causes.one_hot import one_hot
from pgmo.report.advice.causes.optimizer_temporaries import optimizer_temporaries
from pgmo.report.advice.facts import Facts, Hint

__all__ = ["RULES", "Facts", "Hint", "advise"]

RULES: tuple[Callable[[Facts], Hint | None], ...] = (
    trouble.ran_out,
    full_logits,
    one_hot,
    attention_scores,
    late_zero_grad,
    evaluation_with_gradients,
    collected_results,
    model_copies,
    optimizer_temporaries,
    trouble.leaking,
    trouble.numbers_kept,
    placement.fragmented,
    placement.private_pools,
    left_over.gradients_held,
    left_over.held_over,
    placement.two_slots,
    peak.activations,
    peak.optimizer_state,
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
    """Return the hints that apply, causes first, then by bytes."""
    rules = RULES if facts.explanation.moment is None else OF_A_MOMENT
    hints = [hint for rule in rules if (hint := rule(facts)) is not None]
    hints.sort(key=lambda hint: (not hint.is_cause, -hint.bytes))
    first: dict[str, Hint] = {}
    for hint in hints:  # a cause and a general rule may have the same title
        first.setdefault(hint.title, hint)
    return tuple(first.values())
