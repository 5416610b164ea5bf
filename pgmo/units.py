"""Formatter and parser of sizes in binary units."""

import re

from pgmo.errors import OptionError

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
# "10G" and "10GB" count as binary, because users write them for a card's memory.
_SIZE = re.compile(
    r"\s*(\d{1,30}(?:\.\d{0,30})?|\.\d{1,30})\s*(?:([kmgtp])(?:i?b)?|b)?\s*",
    re.ASCII | re.IGNORECASE,
)


def format_bytes(count: int | float) -> str:
    """Format a number of bytes in binary units with three or four digits; below 1 KiB in bytes.

    Example:
        >>> format_bytes(1536), format_bytes(40), format_bytes(24 * 2**30)
        ('1.50 KiB', '40 B', '24.0 GiB')
    """
    sign = "-" if count < 0 else ""
    value = abs(float(count))
    power = 0
    while value >= 1023.995 and power < len(_UNITS) - 1:
        value /= 1024
        power += 1
    if power == 0:
        return f"{sign}{value:.0f} B"
    digits = 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{sign}{value:.{digits}f} {_UNITS[power]}"


def parse_bytes(text: str | int) -> int:
    """Return the bytes of a size such as `"24 GiB"`, `"512MiB"`, `"1.5G"` or a plain number.

    Raises:
        OptionError: if the text is not a size, or negative.

    Example:
        >>> parse_bytes("1.5 KiB")
        1536
    """
    if isinstance(text, int) and not isinstance(text, bool):
        if text < 0:
            raise OptionError(f"a size cannot be negative: {text}")
        return text
    match = _SIZE.fullmatch(str(text))
    if match is None:
        raise OptionError(
            f"cannot read {text!r} as a size; write for example '24 GiB' or '512 MiB'"
        )
    # A float would change numbers above 2**53 and overflow on huge numbers.
    from fractions import Fraction  # Slow to import, so only imported here.

    power = "bkmgtp".index((match[2] or "b").lower())
    return int(Fraction(match[1]) * 1024**power)
