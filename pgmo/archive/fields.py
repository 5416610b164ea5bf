"""Typed access to `meta.json`. Every value is checked before use."""

import reprlib
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from pgmo.errors import FileError

REMEDY = "restore the file from a copy, or record or plan again"
UNWRITTEN = "nothing was written; correct the invalid values"


def refuse(path: Path, what: str, remedy: str = REMEDY) -> NoReturn:
    """Raise a `FileError` that names the file, the fault and a remedy."""
    raise FileError(f"{path}: {what}; {remedy}")


class Fields:
    """Typed access to parsed JSON. A value of a wrong type or range raises `FileError`.

    A message begins with the path, and ends with the remedy. `where` is the position in the file.
    """

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
        """Raise a `FileError` for this file."""
        refuse(self._path, what, self._remedy)

    def only(self, *names: str) -> None:
        """Raise a `FileError` if a field is missing or unknown."""
        for name in sorted(self._values.keys() ^ set(names)):
            state = "is missing" if name in names else "is not known"
            refuse(self._path, f"{self._where}: field {name[:80]!r} {state}", self._remedy)

    def integer(self, name: str, low: int, high: int) -> int:
        """Return an integer in `[low, high]`. Booleans are rejected."""
        value = self._values.get(name)
        if not isinstance(value, int) or isinstance(value, bool):
            self._wrong(name, value, "a whole number")
        if not low <= value <= high:
            self._wrong(name, value, f"from {low} to {high}")
        return value

    def number(self, name: str) -> float:
        """Return a number from 0 to below 2**62, as a float."""
        value = self._values.get(name)
        if not isinstance(value, int | float) or isinstance(value, bool):
            self._wrong(name, value, "a number")
        # False for NaN, too. As a float, an integer just below 2**62 is rounded up to 2**62.
        if not (0 <= value < 2**62 and float(value) < 2**62):
            self._wrong(name, value, "from 0 to below 2**62")
        return float(value)

    def flag(self, name: str) -> bool:
        """Return a Boolean."""
        value = self._values.get(name)
        if not isinstance(value, bool):
            self._wrong(name, value, "true or false")
        return value

    def text(self, name: str) -> str:
        """Return a string that can be encoded in UTF-8."""
        value = self._values.get(name)
        if not _is_text(value):
            self._wrong(name, value, "a string that UTF-8 can encode")
        return str(value)

    def texts(self, name: str) -> dict[str, str]:
        """Return a mapping from strings to strings."""
        value = self._values.get(name)
        if not isinstance(value, dict) or not all(map(_is_text, (*value, *value.values()))):
            self._wrong(name, value, "a mapping from strings to strings that UTF-8 can encode")
        return {str(key): str(text) for key, text in value.items()}

    def rows(self, name: str, least: int, most: int) -> list[tuple[str, ...]]:
        """Return the rows, each of `least` to `most` strings."""
        wide = range(least, most + 1)
        value = self._values.get(name)
        if not isinstance(value, list):
            self._wrong(name, value, "a list")
        for number, row in enumerate(value):
            if not isinstance(row, list) or len(row) not in wide or not all(map(_is_text, row)):
                wanted = f"a list of {least} to {most} strings that UTF-8 can encode"
                self._wrong(f"{name}[{number}]", row, wanted)
        return [tuple(row) for row in value]

    def has(self, name: str) -> bool:
        """Return whether a field exists."""
        return name in self._values

    def integer_rows(self, name: str, width: int, high: int) -> list[tuple[int, ...]]:
        """Return the rows, each of `width` integers in `[0, high]`."""
        value = self._values.get(name)
        if not isinstance(value, list):
            self._wrong(name, value, "a list")
        for number, row in enumerate(value):
            is_row = isinstance(row, list) and len(row) == width
            if not is_row or not all(type(one) is int and 0 <= one <= high for one in row):
                self._wrong(f"{name}[{number}]", row, f"{width} integers from 0 to {high}")
        return [tuple(row) for row in value]

    def inner(self, name: str) -> "Fields":
        """Return the fields of a nested object."""
        value = self._values.get(name)
        if not isinstance(value, dict):
            self._wrong(name, value, "an object")
        return Fields(self._path, value, f"{self._where}: {name}", self._remedy)

    def _wrong(self, name: str, value: object, wanted: str) -> NoReturn:
        shown = "a huge number"
        if not isinstance(value, int) or abs(value) < 2**64:
            # Compute only the shown part of the text, because values may be deeply nested or long.
            shown = reprlib.repr(value).encode("ascii", "backslashreplace").decode()
        refuse(
            self._path,
            f"{self._where}: field {name[:80]!r} is {shown[:60]}, must be {wanted}",
            self._remedy,
        )


def as_text(value: object) -> str:
    """Return a value as text that `Fields` accepts, with lone surrogates escaped.

    Python represents file names that are not UTF-8 with lone surrogates.
    """
    own = str(value)
    # Return a valid string without a copy, because thousands of stacks share the string of a line.
    return own if _is_text(own) else own.encode("utf-8", "backslashreplace").decode()


def _is_text(value: object) -> bool:
    if not isinstance(value, str):
        return False
    try:
        value.encode()  # JSON can contain lone surrogates, which cannot be printed.
    except UnicodeEncodeError:
        return False
    return True
