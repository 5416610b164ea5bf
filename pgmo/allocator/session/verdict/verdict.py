"""The verdict: what a session was good for, in one sentence, and where its figures come from."""

from dataclasses import dataclass

from pgmo.units import format_bytes


@dataclass(frozen=True)
class Verdict:
    """One sentence, and the figures behind it. `str` gives the sentence.

    Args:
        sentence: without "pgmo:" and without a full stop.
        basis: where its figures come from: what was counted, and what was modelled.
        whole_run: the same of the whole run, in lines.
        taken: bytes that were needed, 0 where that is not known.
        plain: bytes that plain PyTorch would have reserved by the model, 0 where there is none.
        since: the first iteration that was served from slots, counted from 1; 0 for none.

    Example:
        >>> verdict = Verdict("7.60 GiB instead of 9.90 GiB (23 % less)", taken=76, plain=99)
        >>> print(verdict, f"{verdict.saving:.0%}")
        7.60 GiB instead of 9.90 GiB (23 % less) 23%
    """

    sentence: str
    basis: str = ""
    whole_run: tuple[str, ...] = ()
    taken: int = 0
    plain: int = 0
    since: int = 0

    def __str__(self) -> str:
        return self.sentence

    @property
    def saving(self) -> float:
        """Share of the plain bytes that is saved; below 0 where more is needed, 0 if not known."""
        return 1 - self.taken / self.plain if self.taken and self.plain else 0.0


def percent(share: float) -> str:
    """A share of bytes, as a whole number of percent where that says enough.

    Example:
        >>> percent(0.234), percent(0.0061), percent(0.9991), percent(1)
        ('23 %', '0.6 %', '99.9 %', '100 %')
    """
    whole = f"{share:.0%}"
    if share not in (0, 1) and (whole == "100%" or share < 0.01):
        # Down, so that nearly all is never called all.
        whole = f"{int(share * 1000) / 10:.1f}%"
    return whole.replace("%", " %")


def compared(taken: int, plain: int) -> str:
    """The comparison of two sizes in bytes.

    Example:
        >>> compared(76 << 27, 99 << 27)
        '9.50 GiB instead of 12.4 GiB (23 % less)'
    """
    return (
        f"{format_bytes(taken)} instead of {format_bytes(plain)} "
        f"({percent(1 - taken / plain)} less)"
    )
