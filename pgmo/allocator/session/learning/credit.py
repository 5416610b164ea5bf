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

    def earn(self, iterations: int = 1) -> None:
        """So many iterations were served well."""
        self._left = min(tuning.MOST_LESSONS, self._left + iterations * tuning.LESSON_EARNED)

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
