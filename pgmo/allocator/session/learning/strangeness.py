"""When a program has departed from its plans for so long that it is recorded anew."""


class Strangeness:
    """Counts replayed iterations that do not follow their plan.

    It leaks, for structures may take turns and one of them be strange each time; an evaluation now
    and then is not worth a plan.

    Args:
        patience: how many in a row are borne.

    Example:
        >>> strangeness = Strangeness(patience=2)
        >>> [strangeness.too_often(strange) for strange in (True, False, True, True)]
        [False, False, False, True]
    """

    def __init__(self, patience: int) -> None:
        self._patience = patience
        self._count = 0  # a strange iteration counts two, any other takes one off

    def too_often(self, strange: bool) -> bool:
        """One more iteration; whether there were too many by now."""
        self._count = self._count + 2 if strange else max(0, self._count - 1)
        return self._count >= 2 * self._patience

    def passed(self, iterations: int) -> None:
        """So many have followed their plan."""
        self._count = max(0, self._count - iterations)

    def forget(self) -> None:
        """Other plans serve now, or the program has been learned from."""
        self._count = 0

    def be_more_patient(self) -> None:
        """The program is recorded: one with more structures than plans would be for ever."""
        self._patience *= 2
