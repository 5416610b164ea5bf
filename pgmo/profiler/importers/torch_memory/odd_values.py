"""Values of a snapshot that cannot be what they stand for, such as a line of 2**64 - 1."""

from collections import Counter
from typing import Final

_LEFT_OUT: Final = ("event", "block", "annotation")
"""Things that are left out with such a value. Of the others only the value is."""


class OddValues:
    """Counts of values that were left out, with the first of each kind in words.

    Example:
        >>> odd = OddValues()
        >>> odd.add("frame", "the line is a number of 80 bits", count=2)
        >>> odd.notes()
        {'odd values': '2 frames read without the value (the line is a number of 80 bits)'}
    """

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._reasons: dict[str, str] = {}

    def add(self, what: str, reason: str, count: int = 1) -> None:
        """Count an odd value.

        Args:
            what: the thing that has the value; such as "frame".
            reason: what is odd, in words.
            count: how many of them.
        """
        self._counts[what] += count
        self._reasons.setdefault(what, reason)

    def reason(self, what: str) -> str:
        """Return what was odd about the first such thing; "" where none was."""
        return self._reasons.get(what, "")

    def notes(self) -> dict[str, str]:
        """Return a note in words; empty where nothing was odd."""
        told = [
            f"{count} {what}{'s' if count > 1 else ''} "
            f"{'left out' if what in _LEFT_OUT else 'read without the value'} "
            f"({self._reasons[what]})"
            for what, count in self._counts.items()
        ]
        return {"odd values": "; ".join(told)} if told else {}
