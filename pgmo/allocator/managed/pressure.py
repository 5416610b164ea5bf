"""When to say that unified memory does not pay: as soon as that is known, and once.

A profile of what does not fit takes a few iterations, and they may be slow. Whoever goes on, and
replays one iteration after the other from more than the card has, moves pages over the bus in each.
"""

from pgmo.allocator.adapters.card import Card
from pgmo.units import format_bytes

_PATIENCE = 3
"""Replayed iterations in a row that were oversubscribed, after which it is said."""


class Pressure:
    """Watches how far iterations exceed the card's room.

    Args:
        card: the device's memory before the session.

    Example:
        >>> pressure = Pressure(Card("cuda:0", free=100, total=128, concurrent=True))
        >>> [bool(pressure.after_replay(150)) for _ in range(5)]
        [False, False, True, False, False]
    """

    def __init__(self, card: Card) -> None:
        self._card = card
        self._iterations = 0

    def after_replay(self, held: int) -> str:
        """What there is to say after a replayed iteration; "" mostly.

        Args:
            held: the most bytes of unified memory that it held.
        """
        if held <= self._card.free:
            self._iterations = 0
            return ""
        self._iterations += 1
        if self._iterations != _PATIENCE:
            return ""
        return (
            f"each iteration needs {format_bytes(held)} of unified memory, "
            f"{self._card.oversubscription(held):.2f} times the {format_bytes(self._card.free)} "
            f"that {self._card.device} had free, so pages move over the bus all the time: to raise "
            "the batch size this does not pay. What costs less time: recomputation, gradient "
            "accumulation at a batch that fits, or, where the arena alone would fit, "
            "pgmo.optimize(profile=...) without memory='managed', from the profile taken here or "
            "from pgmo.extrapolate"
        )
