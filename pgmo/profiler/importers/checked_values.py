"""Type and range checks of values in other tools' files.

Only checked values may be printed, hashed or traversed. A few bytes of a malicious file can
describe a value that does not fit in memory.
"""

import re
import reprlib
from typing import Any, Final

MOST_NUMBER: Final = 2**62
"""Largest accepted address or size, so that the sum of two fits in 64 bits."""

MOST_TIME: Final = 2**60
"""Largest accepted time in microseconds: 36,000 years."""

MOST_DEVICE: Final = 127
"""Largest accepted device number; PyTorch stores it in a signed byte."""

MOST_TEXT: Final = 1024
"""Maximum number of characters kept of a text. Longer texts, such as C++ symbols, are cut."""
_ODD = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")

_short = reprlib.Repr()
_short.maxlevel = 2
_short.maxstring = _short.maxother = _short.maxlong = 60


def integer(value: Any, what: str, low: int = 0, high: int = MOST_NUMBER) -> int:
    """Return the value if it is an integer from `low` to `high`, and not a Boolean.

    Raises:
        ValueError: for any other value.

    Example:
        >>> integer(True, "size")
        Traceback (most recent call last):
        ...
        ValueError: size is True, which is not a whole number
    """
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{what} is {shown(value)}, which is not a whole number")
    if not low <= value <= high:
        most = "2**62" if high == MOST_NUMBER else high
        raise ValueError(f"{what} is {shown(value)}, must be from {low} to {most}")
    return int(value)


def device_number(value: Any) -> int:
    """Return the value if it is an integer from 0 to `MOST_DEVICE`, else raise ValueError."""
    return integer(value, "the device", 0, MOST_DEVICE)


def text(value: Any, what: str) -> str:
    r"""Return the first `MOST_TEXT` characters of a string, cleaned by `printable`.

    Python represents file names that are not UTF-8 by lone surrogates, which can be neither printed
    nor saved.

    Raises:
        ValueError: when the value is not a string.

    Example:
        >>> text("a\ud800b", "the name")
        'a�b'
    """
    if not isinstance(value, str):
        raise ValueError(f"{what} is {shown(value)}, which is not a string")
    return printable(value[:MOST_TEXT])


def printable(value: str) -> str:
    r"""Return a text with control characters and lone surrogates replaced.

    Example:
        >>> printable("\x1b[2J")
        '�[2J'
    """
    return _ODD.sub("\ufffd", value)


def shown(value: Any) -> str:
    """Return a short, printable description of any value, for a message or a note."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 2**64:
        return f"a number of {value.bit_length()} bits"
    return printable(_short.repr(value))[:200]
