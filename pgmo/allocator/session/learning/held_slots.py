"""Notices blocks that were born in slots and never die: others would be missed for good.

A log keeps a loss, a metric is accumulated over an epoch: what is born in the middle of training is
in no plan, and has the size of something that is. Its slot lies where many others of the iteration
have to lie, and each of them is a miss from then on. No block is ever moved, but the arena can be:
the old one keeps what lives there, and the system takes the rest of its memory.
"""

from pgmo.allocator import tuning
from pgmo.allocator.session.statistics import IterationStatistics


class HeldSlots:
    """Counts iterations in which all was expected, and much was missed since slots were taken.

    Example:
        >>> held = HeldSlots()
        >>> held.patience == tuning.HELD_ITERATIONS
        True
    """

    def __init__(self) -> None:
        self.patience = tuning.HELD_ITERATIONS
        self._in_a_row = 0
        self._left = False  # whether the last iteration was the first in another arena

    def restart(self) -> None:
        """Begins anew: other plans serve, or the program is recorded again."""
        self._in_a_row, self._left = 0, False

    def need_another_arena(self, statistics: IterationStatistics) -> bool:
        """Whether it is time to leave them behind; it takes twice as many if that did not help.

        Args:
            statistics: of the iteration that has just ended.
        """
        misses = statistics.misses
        taken = misses["late"] + misses["occupied"]
        others = misses["unknown"] + misses["too_large"]
        held = statistics.hit_bytes_rate < tuning.HELD_SHARE and taken > others
        if self._left:
            self.patience = 2 * self.patience if held else tuning.HELD_ITERATIONS
        self._in_a_row = self._in_a_row + 1 if held else 0
        self._left = self._in_a_row >= self.patience
        if self._left:
            self._in_a_row = 0
        return self._left
