"""How long something that may be in vain is left alone before it is tried again."""


class Backoff:
    """Counts iterations between two attempts: 1, 2, 4, ... times a first pause.

    Args:
        shortest: iterations of the first pause.
        longest: iterations of the longest one.

    Example:
        >>> backoff = Backoff(shortest=1, longest=64)
        >>> backoff.begin(); backoff.is_over()
        True
        >>> backoff.begin(); [backoff.is_over(), backoff.is_over()]
        [False, True]
    """

    def __init__(self, shortest: int, longest: int) -> None:
        self._shortest = self._length = shortest
        self._longest = longest
        self._left = 0

    def begin(self) -> None:
        """Begin a pause that is twice as long as the last one."""
        self._left = self._length
        self._length = min(2 * self._length, self._longest)

    def is_over(self) -> bool:
        """Count one iteration; return whether it was the last one of the pause."""
        self._left -= 1
        return self._left <= 0

    def forget(self) -> None:
        """End the pause, and begin the next one with the shortest."""
        self._length = self._shortest
        self._left = 0
