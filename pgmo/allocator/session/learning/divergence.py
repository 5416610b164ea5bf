"""When a program has departed from its plans for so long that it is recorded again."""


class DivergenceCounter:
    """Scores replayed iterations that do not follow their plan.

    The score decays, for structures may take turns and one of them be unknown each time; an
    evaluation now and then is not worth a recording.

    Args:
        patience: departures in a row that are tolerated.

    Attributes:
        count: the score: a departure adds two, any other iteration takes one off.

    Example:
        >>> divergence = DivergenceCounter(patience=2)
        >>> [divergence.too_often(departed) for departed in (True, False, True, True)]
        [False, False, False, True]
    """

    def __init__(self, patience: int) -> None:
        self._patience = patience
        self.count = 0

    def too_often(self, departed: bool) -> bool:
        """Add one iteration; return whether there were too many departures by now."""
        self.count = self.count + 2 if departed else max(0, self.count - 1)
        return self.count >= 2 * self._patience

    def passed(self, iterations: int) -> None:
        """Add so many iterations that followed their plan."""
        self.count = max(0, self.count - iterations)

    def forget(self) -> None:
        """Set the score to zero: other plans serve now."""
        self.count = 0

    def be_more_patient(self) -> None:
        """Double the patience: a program with more structures than plans would be recorded for
        ever."""
        self._patience *= 2
