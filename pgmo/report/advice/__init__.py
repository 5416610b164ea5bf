"""Advice with figures. Each rule examines the facts and returns a hint, or None.

causes/     known causes: their fixes, and by how much the peak falls
others      what holds memory, and general advice
"""

from collections.abc import Callable

from pgmo.report.advice import left_over, peak, placement, trouble
from pgmo.report.advice.causes.allocator_settings import allocator_settings
from pgmo.report.advice.causes.collected_results import collected_results
from pgmo.report.advice.causes.copies.loaded_checkpoint import loaded_checkpoint
from pgmo.report.advice.causes.copies.model_copies import model_copies
from pgmo.report.advice.causes.copies.second_weights import cloned_weights, model_without_gradients
from pgmo.report.advice.causes.evaluation_with_gradients import evaluation_with_gradients
from pgmo.report.advice.causes.gradients.growing_graphs import growing_graphs
from pgmo.report.advice.causes.gradients.late_zero_grad import late_zero_grad
from pgmo.report.advice.causes.gradients.optimizer_temporaries import optimizer_temporaries
from pgmo.report.advice.causes.gradients.retained_graph import retained_graph
from pgmo.report.advice.causes.gradients.wide_state import wide_state
from pgmo.report.advice.causes.gradients.zeroed_gradients import zeroed_gradients
from pgmo.report.advice.causes.ranks.gathered_ahead import gathered_ahead
from pgmo.report.advice.causes.ranks.gradient_buckets import gradient_buckets
from pgmo.report.advice.causes.ranks.not_resharded import not_resharded
from pgmo.report.advice.causes.ranks.one_unit import one_unit
from pgmo.report.advice.causes.tensors.attention_scores import attention_scores
from pgmo.report.advice.causes.tensors.broadcast_differences import broadcast_differences
from pgmo.report.advice.causes.tensors.full_logits import full_logits
from pgmo.report.advice.causes.tensors.grown_by_cat import grown_by_cat
from pgmo.report.advice.causes.tensors.one_hot import one_hot
from pgmo.report.advice.causes.tensors.repeated_tensors import repeated_tensors
from pgmo.report.advice.causes.tensors.wide_copies import wide_copies
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
    cloned_weights,
    model_without_gradients,
    loaded_checkpoint,
    optimizer_temporaries,
    repeated_tensors,
    grown_by_cat,
    zeroed_gradients,
    retained_graph,
    gradient_buckets,
    one_unit,
    not_resharded,
    gathered_ahead,
    broadcast_differences,
    wide_copies,
    wide_state,
    allocator_settings,
    growing_graphs,
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
    """Return the hints that apply, causes first, then by bytes.

    Savings of different peaks are compared as shares of these peaks.
    """
    rules = RULES if facts.explanation.moment is None else OF_A_MOMENT
    hints = [hint for rule in rules if (hint := rule(facts)) is not None]
    hints.sort(
        key=lambda hint: (not hint.is_cause, hint.changes_results, -_live_bytes(hint, facts))
    )
    first: dict[str, Hint] = {}
    for hint in hints:  # a cause and a general rule may have equal titles
        first.setdefault(hint.title, hint)
    return tuple(first.values())


def _live_bytes(hint: Hint, facts: Facts) -> float:
    """Return a hint's saving, scaled to the peak of live bytes if it lowers another peak."""
    return hint.bytes / hint.peak * facts.blocks.peak if hint.peak else hint.bytes
