"""Verdict on a run: one sentence, and where its figures come from."""

from dataclasses import dataclass

from pgmo.units import format_bytes

SAME = 0.03
"""A difference below this share of plain PyTorch's bytes is reported as "about the same"."""


@dataclass(frozen=True)
class Verdict:
    """A sentence and the figures on which it is based. `str` returns the sentence.

    Args:
        sentence: the sentence, without "pgmo:" and without a full stop.
        basis: which figures were counted, and which were modelled.
        reason: reason why no slot has served, or why none serves any more; else "".
        wrong: invariants that the figures violate; each violation is a bug in pgmo.
        taken: peak of the bytes taken from the device; 0 if unknown.
        plain: `reserved_bytes.all.peak` that plain PyTorch would have; 0 if unknown.
        live: peak of live bytes; 0 if unknown.
        since: number of the first iteration in which slots served most bytes, from 1; 0 for none.

    Example:
        >>> verdict = Verdict("7.60 GiB instead of 9.90 GiB (23 % less)", taken=76, plain=99)
        >>> print(verdict, f"{verdict.saving:.0%}")
        7.60 GiB instead of 9.90 GiB (23 % less) 23%
    """

    sentence: str
    basis: str = ""
    reason: str = ""
    wrong: tuple[str, ...] = ()
    taken: int = 0
    plain: int = 0
    live: int = 0
    since: int = 0

    def __str__(self) -> str:
        return self.sentence

    @property
    def saving(self) -> float:
        """Share of PyTorch's bytes that pgmo saved; below 0 if pgmo took more, 0 if unknown."""
        return 1 - self.taken / self.plain if self.taken and self.plain else 0.0


def percent(share: float) -> str:
    """Format a share of bytes as a percentage. Shares near 0 and 1 get a decimal.

    Example:
        >>> percent(0.234), percent(0.0061), percent(0.9991), percent(1)
        ('23 %', '0.6 %', '99.9 %', '100 %')
    """
    whole = f"{share:.0%}"
    if share not in (0, 1) and (whole == "100%" or share < 0.01):
        # Round down, so that 99.96 % does not become 100 %.
        whole = f"{int(share * 1000) / 10:.1f}%"
    return whole.replace("%", " %")


def compared(taken: int, plain: int) -> str:
    """Return a comparison of two peaks, in words.

    Example:
        >>> compared(76 << 27, 99 << 27)
        '9.50 GiB instead of 12.4 GiB (23 % less)'
        >>> compared(99 << 27, 76 << 27)
        '12.4 GiB instead of 9.50 GiB (30 % more)'
        >>> compared(99 << 27, 98 << 27)
        '12.4 GiB, about the same as plain PyTorch (12.2 GiB)'
    """
    saving = 1 - taken / plain
    if abs(saving) < SAME:
        return f"{format_bytes(taken)}, about the same as plain PyTorch ({format_bytes(plain)})"
    change = f"{percent(abs(saving))} {'less' if saving > 0 else 'more'}"
    return f"{format_bytes(taken)} instead of {format_bytes(plain)} ({change})"
