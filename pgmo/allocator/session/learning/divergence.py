"""When a program has departed from its plans so often that it is recorded again, and for how long.

iteration   a a a b a a a b | a a a b a a a b a a      a: planned, b: not
departures        1       2   └── recorded: b twice, and what it leaves is freed
"""

from pgmo.allocator import heuristics


class DivergenceCounter:
    """Counts replayed iterations that do not follow their plan.

    Args:
        patience: departures until the program is recorded again; twice as many each time, or a
            program with more structures than plans would always be recorded.

    Example:
        >>> divergence = DivergenceCounter(patience=2)
        >>> [divergence.departed(iteration) for iteration in (4, 8, 12, 16, 20)]
        [0, 11, 0, 0, 0]
    """

    def __init__(self, patience: int) -> None:
        self._patience = patience
        self._departures = 0
        self._last = 0

    def departed(self, iteration: int) -> int:
        """Add a departure.

        Args:
            iteration: its number.

        Returns:
            How many iterations to record now, so that what departs comes twice; 0 for none.
        """
        interval = iteration - self._last if self._last else 1
        self._last = iteration
        self._departures += 1
        if self._departures < self._patience:
            return 0
        self._departures = 0
        self._patience *= 2
        wanted = 2 * interval + heuristics.current.confirmations + 1
        return min(wanted, heuristics.current.longest_recording)
