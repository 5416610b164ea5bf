"""How long something that may be in vain is left alone before it is tried again."""


class Backoff:
    """Counts iterations between two attempts: 1, 2, 4, ... times a first pause.

    Args:
        shortest: iterations of the first pause.
        longest: iterations of the longest one.

    Attributes:
        left: iterations until the pause is over.

    Example:
        >>> backoff = Backoff(shortest=1, longest=64)
        >>> backoff.begin(); backoff.begin(); backoff.left
        2
        >>> backoff.count(1); backoff.left
        1
    """

    def __init__(self, shortest: int, longest: int) -> None:
        self._shortest = self._length = shortest
        self._longest = longest
        self.left = 0

    def begin(self) -> None:
        """Begin a pause that is twice as long as the last one."""
        self.left = self._length
        self._length = min(2 * self._length, self._longest)

    def count(self, iterations: int) -> None:
        """Count iterations that have ended."""
        self.left = max(0, self.left - iterations)

    def forget(self) -> None:
        """End the pause, and begin the next one with the shortest."""
        self._length = self._shortest
        self.left = 0
