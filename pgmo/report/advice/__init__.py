"""Advice with figures. Each rule examines the facts and returns a hint, or None.

causes/     known causes: their fixes, and by how much the peak falls
others      what holds memory, and general advice
"""

from collections.abc import Callable

from pgmo.report.advice import peak, placement, trouble
from pgmo.report.advice.causes import copies, ranks, results, tensors, training
from pgmo.report.advice.causes.allocator_settings import allocator_settings
from pgmo.report.advice.facts import Facts, Hint

__all__ = ["RULES", "Facts", "Hint", "advise"]

RULES: tuple[Callable[[Facts], Hint | None], ...] = (
    trouble.ran_out,
    tensors.full_logits,
    tensors.one_hot,
    tensors.attention_scores,
    training.late_zero_grad,
    results.evaluation_with_gradients,
    results.collected_results,
    copies.model_copies,
    copies.cloned_weights,
    copies.model_without_gradients,
    copies.loaded_checkpoint,
    training.optimizer_temporaries,
    tensors.repeated_tensors,
    tensors.grown_by_cat,
    training.zeroed_gradients,
    training.retained_graph,
    ranks.gradient_buckets,
    ranks.one_unit,
    ranks.not_resharded,
    ranks.gathered_ahead,
    tensors.broadcast_differences,
    tensors.wide_copies,
    training.wide_state,
    allocator_settings,
    training.growing_graphs,
    trouble.leaking,
    trouble.numbers_kept,
    placement.fragmented,
    placement.private_pools,
    peak.gradients_held,
    peak.held_over,
    placement.two_slots,
    peak.activations,
    peak.optimizer_state,
    peak.workspace,
    placement.several_streams,
    trouble.varying_sizes,
)
"""Rules for profiles with a history of requests."""

RULES_WITHOUT_HISTORY: tuple[Callable[[Facts], Hint | None], ...] = (
    placement.fragmented,
    placement.private_pools,
    peak.optimizer_state,
)
"""Rules for profiles without a history of requests."""


def advise(facts: Facts) -> tuple[Hint, ...]:
    """Return the hints that apply: causes, causes whose fix changes results, then all others.

    Each group is sorted by saving, largest first. For this, a saving that lowers another peak, such
    as that of reserved bytes, is scaled to the peak of live bytes. If several hints have the same
    title, only the first is returned.
    """
    rules = RULES if facts.explanation.moment is None else RULES_WITHOUT_HISTORY
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
