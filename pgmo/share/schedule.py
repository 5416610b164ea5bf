"""Schedule of turns on one card, which only decides, without clocks, sockets or processes.

    join ─▶ ask ─▶ turn ─▶ give ─▶ ask ...           leave, or lost ─▶ gone
                └▶ pass (the member has waited too long, and runs without a turn)

If the needs of all members fit at once, each member gets a turn on request, and keeps its arena
between turns. Otherwise the card is *crowded*: members release idle memory between turns. A turn is
then granted if it fits beside the running turns, or if no turn runs. The member with the least used
time, weighted by priority, is next.

The broker cannot take memory from a running process. If a member exceeds the deadline, the other
members no longer wait for it and use the remaining memory.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pgmo.share.member import Member

Record = dict[str, Any]
"""One event, which is a line of the log. For an event to send, `to` has the client's number."""

MARGIN = 32
"""Divisor: 1 / `MARGIN` of the card stays free in simultaneous turns, in case a need grows."""


@dataclass(frozen=True)
class Rules:
    """Rules for sharing a card; times in seconds.

    Args:
        deadline: maximum duration of a turn, and of keeping idle memory on a crowded card. After
            this time, other members no longer wait.
        patience: maximum wait for a turn. After this time, the client runs without a turn.
        lanes: maximum number of simultaneous turns.
        total: bytes of each card; None for the sizes that clients report.
    """

    deadline: float = 30.0
    patience: float = 120.0
    lanes: int = 64
    total: int | None = None


@dataclass(eq=False)
class TurnSchedule:
    """Schedule of turns among the processes on one card.

    Each event method handles one event, and returns the records to log and send, in order.

    Attributes:
        foreign: bytes of the card that processes other than members hold, as last computed.
        floor: largest `debt` with which a turn has begun, in seconds.
        turns: number of granted turns.
    """

    card: str
    rules: Rules
    members: dict[int, Member] = field(default_factory=dict)
    total: int = 0
    foreign: int = 0
    floor: float = 0.0
    turns: int = 0
    _looked: float = 0.0

    # --- events ---------------------------------------------------------------------------------

    def join(self, member: Member, total: int, free: int) -> list[Record]:
        """Handle a new process."""
        member.debt = self.floor
        self.members[member.number] = member
        fields = {"pid": member.pid, "name": member.name, "priority": member.priority}
        record = self._record("join", member, **fields, **self._sizes(member, total, free))
        return [record, *self._decide(member.joined)]

    def rejoin(self, number: int, fresh: Member, total: int, free: int) -> list[Record]:
        """Handle a member that has connected again."""
        member = self.members[number]
        member.returns(fresh)
        record = self._record("rejoin", member, **self._sizes(member, total, free))
        return [record, *self._decide(fresh.joined)]

    def _sizes(self, member: Member, total: int, free: int) -> dict[str, int]:
        """Update the sizes of the card, and return them with the sizes of a member."""
        self.total = self.rules.total or max(self.total, total)
        self._update_foreign(free, total)
        sizes = {"held": member.held, "idle": member.idle}
        return {**sizes, "total": self.total, "foreign": self.foreign}

    def number_of(self, pid: int) -> int | None:
        """Return the number of a process's member; None without one, or if the ID is hidden.

        A process in another PID namespace has the ID 0: each of its connections is a member.
        """
        found = (one.number for one in self.members.values() if one.pid == pid)
        return next(found, None) if pid > 0 else None

    def ask(self, number: int, now: float) -> list[Record]:
        """Handle a request for a turn."""
        member = self.members[number]
        if member.began is not None or member.asked is not None:
            return []
        member.asks(now)
        member.debt = max(member.debt, self.floor)
        return [self._record("ask", member), *self._decide(now)]

    def withdraw(self, number: int, now: float) -> list[Record]:
        """Handle the withdrawal of a request."""
        member = self.members[number]
        if member.asked is None:
            return []
        member.asked = None
        return [self._record("withdraw", member), *self._decide(now)]

    def give(
        self, number: int, now: float, *, held: int, idle: int, need: int | None, free: int
    ) -> list[Record]:
        """Handle the end of a turn; without a turn, handle only the sizes."""
        member = self.members[number]
        if member.began is None:
            return self.released(number, now, held=held, idle=idle, free=free)
        took = now - member.began
        member.used += took
        member.debt += took / member.weight
        member.began, member.gave, member.overdue = None, now, False
        member.reports(held, idle, self._credible_need(member, need))
        self._update_foreign(free, self.total)
        self._end_recall(member)
        sizes = {"held": member.held, "idle": member.idle, "need": member.need}
        record = self._record("give", member, took=took, **sizes, foreign=self.foreign)
        return [record, *self._decide(now)]

    def released(self, number: int, now: float, *, held: int, idle: int, free: int) -> list[Record]:
        """Handle a report of current sizes, for example after idle memory was released."""
        member = self.members[number]
        member.reports(held, idle)
        self._update_foreign(free, self.total)
        self._end_recall(member)
        record = self._record("released", member, held=held, idle=idle, foreign=self.foreign)
        return [record, *self._decide(now)]

    def leave(self, number: int, now: float) -> list[Record]:
        """Handle a goodbye, or the end of a process, which frees its memory on the card."""
        member = self.members.pop(number, None)
        if member is None:
            return []
        record = self._record("gone" if member.lost else "leave", member, used=member.used)
        return [record, *self._decide(now)]

    def lose(self, number: int, now: float) -> list[Record]:
        """Handle the end of a connection whose process is still running."""
        member = self.members[number]
        member.lost, member.asked, member.recalled = True, None, now
        self._squeeze()
        return [self._record("lost", member, occupied=member.occupied), *self._decide(now)]

    def tick(self, now: float) -> list[Record]:
        """Handle the passing of time: overdue turns, late releases and exhausted patience."""
        records = []
        for member in self.members.values():
            if member.running and now >= _time(member.began) + self.rules.deadline:
                member.overdue = True
                self._squeeze()
                records.append(self._record("overdue", member, occupied=member.occupied))
            since = member.recalled
            if since is not None and not member.late and now >= since + self.rules.deadline:
                member.late = True
                self._squeeze()
                records.append(self._record("late", member, idle=member.idle))
        records += self._decide(now)
        passed = []
        for member in self.members.values():
            if member.asked is not None and now >= member.asked + self.rules.patience:
                waited, member.asked = now - member.asked, None
                passed.append(self._record("pass", member, to=member.number, waited=waited))
        # If a member has run out of patience, a smaller member behind it may fit now.
        return [*records, *passed, *(self._decide(now) if passed else ())]

    def next_tick(self) -> float | None:
        """Return the next time at which `tick` may change something; None for never."""
        rules, times = self.rules, []
        for one in self.members.values():
            if one.running:
                times.append(_time(one.began) + rules.deadline)
            if one.recalled is not None and not one.late:
                times.append(one.recalled + rules.deadline)
            if one.asked is not None:
                times.append(one.asked + rules.patience)
        if any(one.asked is not None for one in self.members.values()):
            expected = [one.expected for one in self.members.values()]
            times += [one for one in expected if one is not None and one > self._looked]
        return min(times, default=None)

    def status(self, now: float) -> Record:
        """Return the state of the card and its members, for display."""
        return {
            "card": self.card,
            "total": self.total,
            "foreign": self.foreign,
            "crowded": self.crowded,
            "members": [_shown(one, now) for one in self.members.values()],
        }

    # --- decisions ------------------------------------------------------------------------------

    @property
    def crowded(self) -> bool:
        """Return whether two or more members do not fit at once, or have an unknown need."""
        if len(self.members) < 2:
            return False
        return not self._fit(list(self.members.values()))

    def _decide(self, now: float) -> list[Record]:
        self._looked = now
        crowded = self.crowded
        return [*self._announce_crowded(crowded, now), *self._grant_turns(crowded, now)]

    def _announce_crowded(self, crowded: bool, now: float) -> Iterator[Record]:
        for one in self.members.values():
            if one.lost:
                continue
            if one.crowded != crowded:
                one.crowded = crowded
                yield self._record("crowded", one, to=one.number, crowded=crowded)
            if not crowded:
                one.recalled, one.late = None, False
            elif one.idle and one.began is None and one.recalled is None and not one.late:
                one.recalled = now

    def _grant_turns(self, crowded: bool, now: float) -> Iterator[Record]:
        while True:
            waiting = [one for one in self.members.values() if one.asked is not None]
            running = [one for one in self.members.values() if one.running]
            if not waiting or len(running) >= self.rules.lanes:
                return
            head = min(waiting, key=lambda one: (one.debt, one.asked, one.number))
            if crowded and (self._awaits_another(head, now) or not self._has_room(head, running)):
                return
            yield self._begin(head, now)

    def _awaits_another(self, head: Member, now: float) -> bool:
        """Return whether a member that has used less time is about to ask.

        Without this wait, two members that ask during each other's turns would simply alternate,
        whatever their priorities and durations. Source: S. Iyer and P. Druschel, "Anticipatory
        scheduling: a disk scheduling framework to overcome deceptive idleness in synchronous I/O",
        SOSP 2001.
        """
        return any(
            one.debt < head.debt and one.expected is not None and now < one.expected
            for one in self.members.values()
        )

    def _has_room(self, head: Member, running: list[Member]) -> bool:
        others = [one for one in self.members.values() if one is not head]
        if any(one.recalled is not None and not one.late for one in others):
            return False  # their idle memory is being released, or their processes are ending
        return not running or self._fit([head, *running], others)

    def _fit(self, turns: list[Member], others: list[Member] | None = None) -> bool:
        """Return whether members can have turns at once, next to the memory of `others`."""
        if any(one.need is None for one in turns):
            return False
        beside = [one for one in others or [] if one not in turns]
        taken = sum(one.lasting + (one.need or 0) for one in turns)
        taken += sum(one.occupied for one in beside) + self.foreign
        return taken + self.total // MARGIN <= self.total

    def _begin(self, member: Member, now: float) -> Record:
        waited = now - _time(member.asked)
        member.asked, member.began = None, now
        member.recalled, member.late = None, False
        others = [one for one in self.members.values() if one is not member]
        member.squeezed = any(one.overdue or one.late or one.lost for one in others)
        member.turns += 1
        self.turns += 1
        self.floor = max(self.floor, member.debt)
        return self._record("turn", member, to=member.number, turn=self.turns, waited=waited)

    def _squeeze(self) -> None:
        for one in self.members.values():
            one.squeezed = True

    def _credible_need(self, member: Member, need: int | None) -> int | None:
        """Return the need to record, or None. A squeezed turn can only raise the known need."""
        if need is None or not member.squeezed:
            return need
        return None if member.need is None else max(need, member.need)

    def _end_recall(self, member: Member) -> None:
        if not member.idle:
            member.recalled, member.late = None, False

    def _update_foreign(self, free: int, total: int) -> None:
        """Update the bytes of non-members, unless a member has a turn or is lost."""
        if any(one.began is not None or one.lost for one in self.members.values()):
            return
        known = sum(one.held for one in self.members.values())
        self.foreign = 0 if self.rules.total else max(0, total - free - known)

    def _record(self, event: str, member: Member, **fields: object) -> Record:
        return {"event": event, "card": self.card, "client": member.number, **fields}


def _time(moment: float | None) -> float:
    assert moment is not None
    return moment


def _shown(one: Member, now: float) -> Record:
    states = {
        "lost": one.lost,
        "overdue": one.overdue,
        "turn": one.began is not None,
        "waits": one.asked is not None,
    }
    state = next((name for name, on in states.items() if on), "between turns")
    since = one.began if one.began is not None else one.asked
    return {
        "pid": one.pid,
        "name": one.name,
        "priority": one.priority,
        "state": state,
        "since": None if since is None else now - since,
        "used": one.used + (0.0 if one.began is None else now - one.began),
        "turns": one.turns,
        "held": one.held,
        "idle": one.idle,
        "need": one.need,
    }
