"""Pauses between recordings, and the count of iterations that diverged from their plan.

iteration   a a a b a a a b | a a a b a a a b a a      a: planned, b: not
divergences       1       2   └── recorded: b twice, and the frees of blocks that outlive b
"""

from pgmo.allocator import heuristics


class Backoff:
    """Exponential backoff: pauses of 1, 2, 4, ... times `shortest`, up to `longest` iterations.

    Attributes:
        left: iterations until the pause is over.
    """

    def __init__(self, shortest: int, longest: int) -> None:
        self._shortest = self._length = shortest
        self._longest = longest
        self.left = 0

    def begin(self) -> None:
        """Begin a pause, twice as long as the previous pause, but at most `longest`."""
        self.left = self._length
        self._length = min(2 * self._length, self._longest)

    def count(self, iterations: int) -> None:
        """Count iterations that have ended, in a pause or not."""
        self.left = max(0, self.left - iterations)

    def forget(self) -> None:
        """End the pause; the next pause has the shortest length again."""
        self._length = self._shortest
        self.left = 0


class DivergenceCounter:
    """Counter of replayed iterations that diverge from their plan.

    Args:
        patience: number of divergences until the program is recorded again. Each recording doubles
            this number, so a program with more structures than plans is rarely recorded.

    Example:
        >>> divergence = DivergenceCounter(patience=2)
        >>> [divergence.count(iteration) for iteration in (4, 8, 12, 16, 20)]
        [0, 11, 0, 0, 0]
    """

    def __init__(self, patience: int) -> None:
        self._patience = patience
        self._divergences = 0
        self._last = 0

    def count(self, iteration: int) -> int:
        """Count a divergence. Return the number of iterations to record now; 0 for none."""
        interval = iteration - self._last if self._last else 1
        self._last = iteration
        self._divergences += 1
        if self._divergences < self._patience:
            return 0
        self._divergences = 0
        self._patience *= 2
        wanted = 2 * interval + heuristics.current.confirmations + 1
        return min(wanted, heuristics.current.longest_recording)
