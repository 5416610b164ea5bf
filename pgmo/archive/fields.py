"""Typed reading of `meta.json`: every value is checked before anybody uses it."""

import reprlib
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from pgmo.errors import FileError

REMEDY = "restore it from a copy, or record or plan again"
UNWRITTEN = "nothing was written, for no file may hold it: correct it"


def refuse(path: Path, what: str, remedy: str = REMEDY) -> NoReturn:
    """Raises the one error a file gives: what is wrong, where, and what to do.

    Raises:
        FileError: always.

    Example:
        >>> refuse(Path("a.pgmoprof"), "is empty", "record again")
        Traceback (most recent call last):
        ...
        pgmo.errors.FileError: a.pgmoprof: is empty; record again
    """
    raise FileError(f"{path}: {what}; {remedy}")


class Fields:
    """Typed reading of parsed JSON: a value has the type and range it must have, or is refused."""

    def __init__(
        self,
        path: Path,
        values: Mapping[str, object],
        where: str = "meta.json",
        remedy: str = REMEDY,
    ) -> None:
        self._path = path
        self._values = values
        self._where = where
        self._remedy = remedy

    def refuse(self, what: str) -> NoReturn:
        """Raises the error of this file.

        Raises:
            FileError: always.
        """
        refuse(self._path, what, self._remedy)

    def only(self, *names: str) -> None:
        """Refuses fields that are missing or not known."""
        for name in sorted(self._values.keys() ^ set(names)):
            state = "is missing" if name in names else "is not known"
            refuse(self._path, f"{self._where}: field {name[:80]!r} {state}", self._remedy)

    def integer(self, name: str, low: int, high: int) -> int:
        """A whole number in `[low, high]`; true and false are none."""
        value = self._values.get(name)
        if not isinstance(value, int) or isinstance(value, bool):
            self._wrong(name, value, "a whole number")
        if not low <= value <= high:
            self._wrong(name, value, f"from {low} to {high}")
        return value

    def number(self, name: str) -> float:
        """A finite number that is not negative."""
        value = self._values.get(name)
        if not isinstance(value, int | float) or isinstance(value, bool):
            self._wrong(name, value, "a number")
        # False for NaN too. A whole number just below 2**62 is none when it is a float.
        if not (0 <= value < 2**62 and float(value) < 2**62):
            self._wrong(name, value, "finite and not negative")
        return float(value)

    def flag(self, name: str) -> bool:
        """True or false."""
        value = self._values.get(name)
        if not isinstance(value, bool):
            self._wrong(name, value, "true or false")
        return value

    def text(self, name: str) -> str:
        """A string that can be printed."""
        value = self._values.get(name)
        if not _is_text(value):
            self._wrong(name, value, "a string")
        return str(value)

    def texts(self, name: str) -> dict[str, str]:
        """A mapping from strings to strings."""
        value = self._values.get(name)
        if not isinstance(value, dict) or not all(map(_is_text, (*value, *value.values()))):
            self._wrong(name, value, "a mapping from strings to strings")
        return {str(key): str(text) for key, text in value.items()}

    def rows(self, name: str, least: int, most: int) -> list[tuple[str, ...]]:
        """Return the rows, each of `least` to `most` strings."""
        wide = range(least, most + 1)
        value = self._values.get(name)
        if not isinstance(value, list):
            self._wrong(name, value, "a list")
        for number, row in enumerate(value):
            if not isinstance(row, list) or len(row) not in wide or not all(map(_is_text, row)):
                self._wrong(f"{name}[{number}]", row, f"a list of {least} to {most} strings")
        return [tuple(row) for row in value]

    def inner(self, name: str) -> "Fields":
        """The fields of a nested object."""
        value = self._values.get(name)
        if not isinstance(value, dict):
            self._wrong(name, value, "an object")
        return Fields(self._path, value, f"{self._where}: {name}", self._remedy)

    def _wrong(self, name: str, value: object, wanted: str) -> NoReturn:
        shown = "a huge number"
        if not isinstance(value, int) or abs(value) < 2**64:
            # Of what is deep or long, no more than is shown.
            shown = reprlib.repr(value).encode("ascii", "backslashreplace").decode()
        refuse(
            self._path,
            f"{self._where}: field {name[:80]!r} is {shown[:60]}, must be {wanted}",
            self._remedy,
        )


def as_text(value: object) -> str:
    r"""A value as text that `Fields` reads: halves of surrogate pairs are spelled.

    Python has them in names of files that are not in UTF-8.

    Example:
        >>> as_text("a\ud800")
        'a\\ud800'
    """
    own = str(value)
    # The same text where it is one already: of a line of code, thousands of stacks have one object.
    return own if _is_text(own) else own.encode("utf-8", "backslashreplace").decode()


def _is_text(value: object) -> bool:
    if not isinstance(value, str):
        return False
    try:
        value.encode()  # JSON can spell half a surrogate pair, which nothing could print
    except UnicodeEncodeError:
        return False
    return True
