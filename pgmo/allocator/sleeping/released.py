"""What was given back."""

from dataclasses import dataclass
from typing import Literal

from pgmo.units import format_bytes

State = Literal["host", "drop"]


@dataclass(frozen=True)
class Released:
    """What `Session.release` has done.

    Args:
        card: bytes that the card has back.
        host: bytes of state that the host keeps.
        awake: bytes of the state that was meant and stays where it is: what lies in PyTorch's own
            segments, in a page with something else, or what another process has.
        number: of the sleep, for `Session.resume`; 0: nothing sleeps.

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
