"""Comparison of results bit for bit. If they differ, plain PyTorch runs again to find the cause."""

from collections.abc import Callable, Sequence
from enum import StrEnum


class Agreement(StrEnum):
    """Result of comparing runs with pgmo to a run of plain PyTorch."""

    IDENTICAL = "identical"
    PLAIN_VARIES = "plain PyTorch does not repeat itself here"
    DIFFERENT = "different"


def agreement(
    plain: object, others: Sequence[object], repeat_plain: Callable[[], object]
) -> Agreement:
    """Compare the results of one computation, and repeat plain PyTorch if they differ.

    Args:
        plain: result without pgmo, such as losses and a hash of the weights.
        others: results with pgmo.
        repeat_plain: computes the result without pgmo once more. Called only on a difference.

    Returns:
        `IDENTICAL`, `PLAIN_VARIES` or `DIFFERENT`.
    """
    if all(other == plain for other in others):
        return Agreement.IDENTICAL
    return Agreement.DIFFERENT if repeat_plain() == plain else Agreement.PLAIN_VARIES
