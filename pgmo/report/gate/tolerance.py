"""How much more memory is no regression."""

import re
from dataclasses import dataclass
from fractions import Fraction

from pgmo.errors import OptionError
from pgmo.units import format_bytes, parse_bytes

_PERCENT = re.compile(r"\s*(\d{1,6}(?:\.\d{0,6})?|\.\d{1,6})\s*%\s*", re.ASCII)


@dataclass(frozen=True)
class Tolerance:
    """A share of what there was, or a number of bytes.

    Args:
        share: of the figure before.
        size: bytes, on top of that.

    Example:
        >>> Tolerance.read("1%").limit(200), Tolerance.read("64 KiB").limit(0)
        (202, 65536)
    """

    share: Fraction = Fraction(1, 100)
    size: int = 0

    @classmethod
    def read(cls, text: str) -> "Tolerance":
        """Reads "1%" or "64 KiB".

        Raises:
            OptionError: when it is neither.
        """
        percent = _PERCENT.fullmatch(text)
        if percent:
            return cls(Fraction(percent[1]) / 100)
        if text.strip().isdigit() and text.strip() != "0":
            raise OptionError(
                f"a tolerance of {text!r} is of what? Write '{text}%' or '{text} MiB'"
            )
        try:
            return cls(Fraction(0), parse_bytes(text))
        except OptionError as error:
            raise OptionError(
                f"cannot read {text!r} as a tolerance; write for example '1%' or '64 KiB'"
            ) from error

    def limit(self, before: int, *, blocks: bool = False) -> int:
        """What a figure may be at most.

        Args:
            before: what it was.
            blocks: it is a number of blocks, which a tolerance in bytes does not allow to grow.
        """
        return before + int(before * self.share) + (0 if blocks else self.size)

    def __str__(self) -> str:
        return format_bytes(self.size) if self.size else f"{float(100 * self.share):g} %"
