"""Allowed growth of memory."""

import re
from dataclasses import dataclass
from fractions import Fraction

from pgmo.errors import OptionError
from pgmo.units import format_bytes, parse_bytes

_PERCENT = re.compile(r"\s*(\d{1,6}(?:\.\d{0,6})?|\.\d{1,6})\s*%\s*", re.ASCII)


@dataclass(frozen=True)
class Tolerance:
    """Allowed growth: a share of the earlier figure, plus `size` bytes.

    Example:
        >>> Tolerance.read("1%").limit(200), Tolerance.read("64 KiB").limit(0)
        (202, 65536)
    """

    share: Fraction = Fraction(1, 100)
    size: int = 0

    @classmethod
    def read(cls, text: str) -> "Tolerance":
        """Parse "1%" or "64 KiB"; raise OptionError for any other text."""
        percent = _PERCENT.fullmatch(text)
        if percent:
            return cls(Fraction(percent[1]) / 100)
        if text.strip().isdigit() and text.strip() != "0":
            raise OptionError(f"the tolerance {text} has no unit; write '{text}%' or '{text} MiB'")
        try:
            return cls(Fraction(0), parse_bytes(text))
        except OptionError as error:
            raise OptionError(
                f"cannot read {text!r} as a tolerance; write for example '1%' or '64 KiB'"
            ) from error

    def limit(self, before: int, *, blocks: bool = False) -> int:
        """Return the largest allowed value. For numbers of blocks, only the share counts."""
        return before + int(before * self.share) + (0 if blocks else self.size)

    def __str__(self) -> str:
        return format_bytes(self.size) if self.size else f"{float(100 * self.share):g} %"
