"""Result of `Session.release` and `pgmo.phase`."""

from dataclasses import dataclass
from typing import Literal

from pgmo.units import format_bytes

State = Literal["host", "drop"]


@dataclass(frozen=True)
class Released:
    """Result of `Session.release` and `pgmo.phase`.

    Args:
        card: bytes given back to the card.
        host: bytes of state kept on the host.
        awake: bytes of state that could not sleep, because this state lies in PyTorch's own
            segments, shares a page with other blocks, or is used by another process.
        number: number of the sleep, for `Session.resume`; 0 if nothing sleeps.

    Example:
        >>> print(Released(card=3 << 30, host=1 << 30, awake=0))
        3.00 GiB given back to the card, 1.00 GiB of it kept on the host
    """

    card: int = 0
    host: int = 0
    awake: int = 0
    number: int = 0

    def __str__(self) -> str:
        text = f"{format_bytes(self.card)} given back to the card"
        if self.host:
            text += f", {format_bytes(self.host)} of it kept on the host"
        if self.awake:
            text += f"; {format_bytes(self.awake)} that were to sleep stay where they are"
        return text
