"""How long a program that does not repeat is left alone before it is recorded again."""

from pgmo.allocator import tuning


class Backoff:
    """Counts iterations without recording: 1, 2, 4, ... up to `tuning.LONGEST_BACKOFF`.

    Example:
        >>> backoff = Backoff()
        >>> backoff.begin(); backoff.is_over()
        True
        >>> backoff.begin(); [backoff.is_over(), backoff.is_over()]
        [False, True]
    """

    def __init__(self) -> None:
        self._length = 1
        self._left = 0

    def begin(self) -> None:
        """Begin a pause that is twice as long as the last one."""
        self._left = self._length
        self._length = min(2 * self._length, tuning.LONGEST_BACKOFF)

    def is_over(self) -> bool:
        """Count one iteration; return whether it was the last one of the pause."""
        self._left -= 1
        return self._left <= 0

    def forget(self) -> None:
        """Begin with the shortest pause again: plans serve now."""
        self._length = 1
