"""State that the broker keeps of one process on a card.

held     ▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓    bytes of the card that the process has now
lasting  ▓▓▓▓▓▓▓▓              parameters, optimizer state: they stay between turns
idle             ░░░░░░░░░░    part of its arena that the process keeps between two turns
need             ▓▓▓▓▓▓▓▓▓▓    bytes that a turn takes above `lasting`
"""

from collections import deque
from dataclasses import dataclass, field

_REMEMBERED = 8
"""Number of recent turns whose needs are kept. Older needs are forgotten, because lengths vary."""

_SHORT = 0.25
"""Longest pause between turns for which other members wait, as a share of the mean turn."""

_LEAST = 0.002
"""Minimum wait in seconds. A message takes this long on a busy machine."""


@dataclass(eq=False)
class Member:
    """One process on one card. Sizes are in bytes, times in seconds of the broker's clock.

    Args:
        number: number of the process's first connection; never reused.
        pid: process ID.
        name: display name of the program.
        priority: each step doubles the process's share of the time on the card.
        held: bytes of the card that the process has, as last reported.
        idle: part of `held` that the process would give back on request.
        joined: time at which the process connected.

    Attributes:
        debt: `used` divided by the weight, but at each request at least the schedule's `floor`. The
            waiting member with the least debt is next.
        used: total time of the member's turns.
        turns: number of the member's turns.
        asked: time since which the member waits for a turn; None if it does not wait.
        began: time since which the member has a turn; None without a turn.
        gave: time at which the member's last turn ended; None before the first.
        gap: recent mean of the seconds from the end of a turn to the next request.
        recalled: time since which the broker waits for the idle bytes, or for the end of a lost
            process; None if the broker does not wait.
        crowded: whether the last message to the member reported a crowded card.
        overdue: whether the turn exceeds the deadline, so that other members no longer wait.
        late: whether the wait since `recalled` exceeds the deadline, so that other members no
            longer wait.
        squeezed: whether a member was overdue, late or lost during this turn. A squeezed turn may
            have lacked memory, so it does not lower the known need.
        lost: whether the connection is gone while the process lives and keeps its memory.
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
        """Share of the time on the card, relative to the weights of other members."""
        return float(2.0**self.priority)

    @property
    def lasting(self) -> int:
        """Bytes that stay between turns."""
        return self.held - self.idle

    @property
    def need(self) -> int | None:
        """Largest number of bytes that a recent turn took above `lasting`; None before a turn."""
        return max(self._needs) if self._needs else None

    @property
    def running(self) -> bool:
        """Return whether the member has a turn, and is neither overdue nor lost."""
        return self.began is not None and not self.overdue and not self.lost

    @property
    def occupied(self) -> int:
        """Bytes of the card that no other process can have now."""
        in_turn = self.began is not None or self.lost
        return max(self.held, self.lasting + (self.need or 0)) if in_turn else self.held

    @property
    def expected(self) -> float | None:
        """Time until which other members wait for this member's next request; None for no wait."""
        away = self.asked is None and self.began is None and not self.lost
        if not away or self.gave is None or self.gap is None:
            return None
        short = self.gap <= _SHORT * self.used / max(1, self.turns)
        return self.gave + max(_LEAST, 2 * self.gap) if short else None

    def asks(self, now: float) -> None:
        """Record a request for a turn."""
        self.asked = now
        if self.gave is not None:
            gap = now - self.gave
            self.gap = gap if self.gap is None else (self.gap + gap) / 2

    def reports(self, held: int, idle: int, need: int | None = None) -> None:
        """Record the member's bytes, and the need of a finished turn."""
        self.held, self.idle = held, min(idle, held)
        if need is not None:
            self._needs.append(need)

    def returns(self, fresh: "Member") -> None:
        """Restart the member on a new connection; keep its debt and the needs of its turns."""
        self.name, self.priority = fresh.name, fresh.priority
        self.asked = self.began = self.gave = self.recalled = None
        self.crowded = self.overdue = self.late = self.lost = False
        self.reports(fresh.held, fresh.idle)
