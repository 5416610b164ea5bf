"""Counter of invalid values in a snapshot, such as the line number 2**64 - 1."""

from collections import Counter
from typing import Final

_LEFT_OUT: Final = ("event", "block", "annotation")
"""Kinds of items that are dropped if a value is invalid; other items lose only the value."""


class OddValues:
    """Counts of invalid values by kind of item, with the first reason for each kind.

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
        """Count invalid values, and keep the reason if it is the first for this kind of item."""
        self._counts[what] += count
        self._reasons.setdefault(what, reason)

    def reason(self, what: str) -> str:
        """Return why the first invalid item of a kind was invalid, or "" if all were valid."""
        return self._reasons.get(what, "")

    def notes(self) -> dict[str, str]:
        """Return a note for the user; empty if all values were valid."""
        descriptions = [
            f"{count} {what}{'s' if count > 1 else ''} "
            f"{'left out' if what in _LEFT_OUT else 'read without the value'} "
            f"({self._reasons[what]})"
            for what, count in self._counts.items()
        ]
        return {"odd values": "; ".join(descriptions)} if descriptions else {}
