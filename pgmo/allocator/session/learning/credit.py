"""How many lessons a program may still take: each keeps its loop waiting."""

from pgmo.allocator import tuning


class LessonCredit:
    """Plans that may still be made from single iterations: each keeps the loop waiting.

    Example:
        >>> credit = LessonCredit()
        >>> [credit.spend(3_000) for _ in range(40)].count(True) == tuning.MOST_LESSONS
        True
    """

    def __init__(self) -> None:
        self._left = float(tuning.MOST_LESSONS)

    def earn(self, good: bool, iterations: int = 1) -> None:
        """Iterations have passed."""
        earned = tuning.LESSON_EARNED if good else tuning.LESSON_EARNED_ANYWAY
        self._left = min(tuning.MOST_LESSONS, self._left + iterations * earned)

    def allows(self, requests: int, plans: int = 1) -> bool:
        """Whether there is enough for an iteration of so many requests, beside so many plans."""
        return self._left >= self._price(requests, plans)

    def spend(self, requests: int, plans: int = 1) -> bool:
        """Takes what it costs, if there is enough."""
        allowed = self.allows(requests, plans)
        self._left -= self._price(requests, plans) * allowed
        return allowed

    @staticmethod
    def _price(requests: int, plans: int) -> float:
        """The iteration is compared with each plan."""
        return max(1.0, requests * max(1, plans) / tuning.LESSON_REQUESTS)
