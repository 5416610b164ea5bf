"""Which operator takes what: rules by operator."""

from typing import Any

from pgmo.cards.card import Card
from pgmo.fit.estimate.kernels import (
    attention,
    convolutions,
    indices,
    losses,
    norms,
    products,
    sorting,
    sums,
)
from pgmo.fit.estimate.kernels.rule import Kernel, Rule
from pgmo.fit.estimate.ledger import Ledger

RULES: dict[Any, Rule] = {
    **attention.RULES,
    **convolutions.RULES,
    **indices.RULES,
    **losses.RULES,
    **norms.RULES,
    **products.RULES,
    **sorting.RULES,
    **sums.RULES,
}


class Kernels:
    """Notes what operators take and give back on a card.

    Args:
        ledger: where it is noted.
        card: whose kernels these are.

    Example:
        >>> import torch
        >>> from pgmo.cards.catalog import find
        >>> Kernels(Ledger(), find("A100-40GB")).knows(torch.ops.aten.mm.default)
        True
    """

    def __init__(self, ledger: Ledger, card: Card) -> None:
        self._kernel = Kernel(ledger, card)

    def run(self, func: Any, args: Any, kwargs: Any, out: Any) -> None:
        """Notes blocks of one operator, its results among them where their order matters."""
        rule = RULES.get(func)
        if rule is not None:
            rule(self._kernel, args, kwargs, out)

    @staticmethod
    def knows(func: Any) -> bool:
        """Whether there is a rule for the operator."""
        return func in RULES
