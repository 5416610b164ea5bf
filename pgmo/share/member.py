"""One process among those that share a card, as the broker knows it.

held     ▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓    bytes of the card that it has
lasting  ▓▓▓▓▓▓▓▓              parameters, optimizer state: they stay
idle             ░░░░░░░░░░    what it keeps of its arena between two turns
need             ▓▓▓▓▓▓▓▓▓▓    what a turn takes besides what lasts
"""

from collections import deque
from dataclasses import dataclass, field

_REMEMBERED = 8
"""Turns whose needs count: lengths vary, and what was long ago does not come again."""

_SHORT = 0.25
"""Of its turns: a pause that is waited for, when it is somebody's turn who is in one."""

_LEAST = 0.002
"""Seconds that are waited for in any case: a message takes as long on a busy machine."""


@dataclass(eq=False)
class Member:
    """One process on one card. Sizes in bytes, times in seconds of the broker's clock.

    Args:
        number: of this connection; never given again.
        pid: of the process.
        name: of the program, for people.
        priority: doubles the share of the card with each step.
        held: bytes of the card that it has, as it last said.
        idle: those of them that it would give back if asked.
        joined: when it came.

    Attributes:
        debt: time used, divided by the share that is its own; who has the least is next.
        asked: since when it waits for a turn; None: it does not.
        began: since when it has a turn; None: it has none.
        gave: when its last turn ended; None before the first.
        gap: seconds from the end of a turn to its next question, as they were lately.
        recalled: since when it is asked to keep nothing between turns; None: it need not, or has
            done so.
        overdue: has had a turn for longer than the deadline: others no longer wait for it.
        late: has not given back what idles within the deadline, or not ended: nobody waits for
            that any longer.
        squeezed: somebody has had more than its due during this turn, so that it shows no need.
        lost: nobody is connected any more, but the process lives, with what it has of the card.
    """

    number: int
    pid: int
    name: str
    priority: int
    held: int
    idle: int
    joined: float
    debt: float = 0.0
    used: float = 0.0
    turns: int = 0
    asked: float | None = None
    began: float | None = None
    gave: float | None = None
    gap: float | None = None
    recalled: float | None = None
    crowded: bool = False
    overdue: bool = False
    late: bool = False
    lost: bool = False
    squeezed: bool = False
    _needs: deque[int] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))

    @property
    def weight(self) -> float:
        """Its share of the card, as a ratio to others'."""
        return float(2.0**self.priority)

    @property
    def lasting(self) -> int:
        """Bytes that stay whatever happens."""
        return self.held - self.idle

    @property
    def need(self) -> int | None:
        """Bytes that a turn takes besides; None before the first."""
        return max(self._needs) if self._needs else None

    @property
    def running(self) -> bool:
        """Whether it has a turn that others wait for."""
        return self.began is not None and not self.overdue and not self.lost

    @property
    def occupied(self) -> int:
        """Bytes of the card that nobody else can have now."""
        in_turn = self.began is not None or self.lost
        return max(self.held, self.lasting + (self.need or 0)) if in_turn else self.held

    @property
    def expected(self) -> float | None:
        """Until when its next question is waited for; None: it is not."""
        away = self.asked is None and self.began is None and not self.lost
        if not away or self.gave is None or self.gap is None:
            return None
        short = self.gap <= _SHORT * self.used / max(1, self.turns)
        return self.gave + max(_LEAST, 2 * self.gap) if short else None

    def asks(self, now: float) -> None:
        """It wants a turn."""
        self.asked = now
        if self.gave is not None:
            gap = now - self.gave
            self.gap = gap if self.gap is None else (self.gap + gap) / 2

    def reports(self, held: int, idle: int, need: int | None = None) -> None:
        """It has said what it has, and what its turn took besides what lasts."""
        self.held, self.idle = held, min(idle, held)
        if need is not None:
            self._needs.append(need)

    def returns(self, fresh: "Member") -> None:
        """Start anew on another connection; what was learned of its turns and its debt stays.

        Args:
            fresh: the member that the new connection alone would make.
        """
        self.name, self.priority = fresh.name, fresh.priority
        self.asked = self.began = self.gave = self.recalled = None
        self.crowded = self.overdue = self.late = self.lost = False
        self.reports(fresh.held, fresh.idle)
