"""Values in files of other tools: each has the type and range that it must have, or is refused.

Nothing else of a file may be printed, hashed or looked through: a value of a few bytes can have
more parts than there is memory.
"""

import re
import reprlib
from typing import Any, Final

MOST_NUMBER: Final = 2**62
"""The largest address or size: sums of two of them are numbers, still."""

MOST_TIME: Final = 2**60
"""The latest time in microseconds: 36,000 years."""

MOST_DEVICE: Final = 127
"""The largest number of a device: PyTorch keeps it in a byte."""

MOST_TEXT: Final = 1024
"""The most characters of a text that are kept; some symbols of C++ have ten times as many."""
_ODD = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")

_short = reprlib.Repr()
_short.maxlevel = 2
_short.maxstring = _short.maxother = _short.maxlong = 60


def integer(value: Any, what: str, low: int = 0, high: int = MOST_NUMBER) -> int:
    """A whole number from `low` to `high`.

    Raises:
        ValueError: when it is none.

    Example:
        >>> integer(7, "size")
        7
        >>> integer(float("inf"), "size")
        Traceback (most recent call last):
        ...
        ValueError: size is inf, which is no whole number
    """
    if not isinstance(value, int):
        raise ValueError(f"{what} is {shown(value)}, which is no whole number")
    if not low <= value <= high:
        most = "2**62" if high == MOST_NUMBER else high
        raise ValueError(f"{what} is {shown(value)}, must be from {low} to {most}")
    return int(value)


def device_number(value: Any) -> int:
    """The number of a device.

    Raises:
        ValueError: when no framework has such a device.

    Example:
        >>> device_number(0)
        0
    """
    return integer(value, "the device", 0, MOST_DEVICE)


def text(value: Any, what: str) -> str:
    r"""A text, as far as it can be printed: its first thousand characters; odd ones are replaced.

    Names of files that are not in UTF-8 have halves of surrogate pairs in Python, which can neither
    be printed nor saved.

    Raises:
        ValueError: when it is no text.

    Example:
        >>> text("a\ud800b", "the name")
        'a�b'
    """
    if not isinstance(value, str):
        raise ValueError(f"{what} is {shown(value)}, which is no text")
    return printable(value[:MOST_TEXT])


def printable(value: str) -> str:
    r"""A text with control characters and halves of surrogate pairs replaced.

    Example:
        >>> printable("\x1b[2J")
        '�[2J'
    """
    return _ODD.sub("\ufffd", value)


def shown(value: Any) -> str:
    """A value for a message or a note: its beginning, whatever it is.

    Example:
        >>> shown([[[[]]]])
        '[[[...]]]'
    """
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 2**64:
        return f"a number of {value.bit_length()} bits"
    return printable(_short.repr(value))[:200]
