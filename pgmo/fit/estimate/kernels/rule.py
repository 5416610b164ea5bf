"""What a rule is given to note an operator's blocks with."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from pgmo.cards.card import Card
from pgmo.fit.estimate.ledger import Ledger


@dataclass(frozen=True)
class Kernel:
    """Where an operator runs.

    Attributes:
        ledger: where its blocks are noted.
        card: that it runs on.
        workspaces: those that were taken and are never given back.
    """

    ledger: Ledger
    card: Card
    workspaces: set[tuple[str, bool]] = field(default_factory=set)

    def once(self, name: str, size: int) -> None:
        """Takes a workspace that a library keeps for each thread: autograd has one of its own."""
        key = (name, torch._C._current_graph_task_id() != -1)
        if key not in self.workspaces:
            self.workspaces.add(key)
            self.ledger.permanent(size)

    def passing(self, *sizes: int) -> None:
        """Takes blocks and gives them back, the last one first."""
        taken = [self.ledger.take(size) for size in sizes if size > 0]
        self.ledger.give(*reversed(taken))


Rule = Callable[[Kernel, Any, Any, Any], None]


def size_of(tensor: Any) -> int:
    """Bytes of a tensor's elements."""
    return int(tensor.numel() * tensor.element_size())


def rounded(count: int, unit: int) -> int:
    """The least multiple of a unit that is not below a count."""
    return -(-count // unit) * unit
