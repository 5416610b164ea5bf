"""Which steps of optimizers end an iteration.

    one optimizer            A | A | A |
    a GAN                    D G | D G |
    a critic of five steps   D D D D D G | D D D D D G |

An iteration is a circle, so it does not matter at which of its steps it is cut, only that it is
always at the same one. Gradient accumulation needs nothing: micro-batches have no step.
"""

from collections import deque
from collections.abc import Set

_LONGEST = 32
"""Steps of the longest pattern that is looked for; longer ones go by who has stepped."""

_PATIENCE = 8
"""Equal steps in a row, after which an optimizer that never stepped is not waited for."""


class StepPattern:
    """Learns the order in which optimizers take turns.

    While it is not known, an iteration ends when every optimizer has stepped. As soon as the same
    order was seen twice, that counts; when it is broken, learning begins again.

    Example:
        >>> pattern = StepPattern()
        >>> [pattern.ends_iteration(one, {"D", "G"}) for one in "DDGDDGDDG"]
        [False, False, True, False, False, True, False, False, True]
    """

    def __init__(self) -> None:
        self._history: deque[object] = deque(maxlen=2 * _LONGEST)
        self._since: set[object] = set()  # who has stepped in this iteration
        self._idle: set[object] = set()
        self._period = 0
        self._position = 0  # in the period

    def ends_iteration(self, optimizer: object, existing: Set[object]) -> bool:
        """Takes note of a step.

        Args:
            optimizer: whose; anything that can be compared and hashed.
            existing: all optimizers that there are, which may step or not.
        """
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
            if waited_for <= self._of_last(period) and self._repeats(period, 2):
                self._period, self._position = period, 0
                return self._end(True)
        return self._end(waited_for <= self._since)

    def _end(self, ended: bool) -> bool:
        if ended:
            self._since.clear()
        return ended

    def _of_last(self, count: int) -> set[object]:
        return set(list(self._history)[-count:])

    def _repeats(self, period: int, times: int) -> bool:
        last = list(self._history)[-period * times :]
        return len(last) == period * times and last == last[:period] * times
