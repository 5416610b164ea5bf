"""Detection of the optimizer steps that end an iteration.

    one optimizer            A | A | A |
    a GAN                    D G | D G |
    a critic of five steps   D D D D D G | D D D D D G |

Any step of the pattern may end the iteration, if the same step ends each iteration. Gradient
accumulation needs no special case, because micro-batches make no step.
"""

from collections import deque
from collections.abc import Set

_LONGEST = 32
"""Longest detected pattern, in steps. In longer patterns, an iteration ends when every optimizer
has stepped."""

_PATIENCE = 8
"""Number of successive steps of one optimizer after which the other optimizers are ignored."""


class StepPattern:
    """Learner of the order in which optimizers step.

    While the order is unknown, an iteration ends when every optimizer has stepped. Once an order
    has repeated, each period of the order is an iteration. When the order changes, learning starts
    again.

    Example:
        >>> pattern = StepPattern()
        >>> [pattern.ends_iteration(one, {"D", "G"}) for one in "DDGDDGDDG"]
        [False, False, True, False, False, True, False, False, True]
    """

    def __init__(self) -> None:
        self._history: deque[object] = deque(maxlen=2 * _LONGEST)
        self._since: set[object] = set()  # optimizers that have stepped in this iteration
        self._idle: set[object] = set()  # ignored until their next step
        self._period = 0
        self._position = 0  # number of steps in the current period

    def ends_iteration(self, optimizer: object, existing: Set[object]) -> bool:
        """Record a step and return whether it ends an iteration."""
        if self._period and self._history[-self._period] != optimizer:
            self._period = 0
        self._history.append(optimizer)
        self._since.add(optimizer)
        self._idle.discard(optimizer)
        if self._period:
            self._position = (self._position + 1) % self._period
            return self._end(self._position == 0)
        waited_for = set(existing) - self._idle
        if self._repeats(1, _PATIENCE):
            self._idle |= waited_for - {optimizer}
            waited_for = {optimizer}
        for period in range(1, len(self._history) // 2 + 1):
            if waited_for <= set(list(self._history)[-period:]) and self._repeats(period, 2):
                self._period, self._position = period, 0
                return self._end(True)
        return self._end(waited_for <= self._since)

    def _end(self, ended: bool) -> bool:
        if ended:
            self._since.clear()
        return ended

    def _repeats(self, period: int, times: int) -> bool:
        last = list(self._history)[-period * times :]
        return len(last) == period * times and last == last[:period] * times
