"""What a session counts of each iteration."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

MISS_REASONS: Mapping[str, str] = {
    "persistent": "not planned: never freed while recording",
    "unknown": "not in the plan",
    "too_large": "larger than when it was planned",
    "occupied": "slot still held by its previous block",
    "late": "slot overlaps a block that outlived its plan",
    "no_arena": "there was no arena for it at the moment",
}
"""Why a request was handed to the framework's own allocator, in plain words."""

MISS_ADVICE: Mapping[str, str] = {
    "persistent": "nothing to do: they are served from pages, or by the framework",
    "unknown": "mark whole iterations; put evaluation and logging into `session.pause()`",
    "too_large": "record the largest first; the plan grows after one iteration",
    "occupied": "look for lists of losses and outputs; `loss.item()` instead of `loss`",
    "late": "look for lists of losses and outputs; `loss.item()` instead of `loss`",
    "no_arena": "nothing to do, unless it goes on",
}
"""What to do about each; a test compares it with the table of docs/guides/troubleshooting.md."""


class Phase(StrEnum):
    """What a session does during an iteration.

    Example:
        >>> Phase.REPLAY.value
        'replay'
    """

    RECORD = "record"
    BACKOFF = "backoff"
    REPLAY = "replay"
    BYPASS = "bypass"
    CLOSED = "closed"


DRIVER_CALLS = ("creates", "releases", "maps", "grants", "unmaps", "events", "waits")
"""Kinds of calls that pages make: pages created and released, mapped, made accessible and unmapped;
events recorded, and waited for by a stream."""


@dataclass(frozen=True)
class IterationStatistics:
    """One iteration. Requests of zero bytes are not counted; sizes are in bytes.

    Args:
        phase: what the session did; requests are served from slots in `REPLAY`, and in `RECORD`
            while a diverged program is recorded again. In `BACKOFF` nothing is recorded: pages
            serve, or the framework's allocator where there are none, and nothing is counted.
        requests: how many blocks were asked for.
        hits: how many of them were served from their slots.
        bytes_requested: sum of the sizes asked for.
        bytes_hit: sum of the sizes served from slots.
        misses: number by reason; the keys are those of `MISS_REASONS`.
        skipped: planned requests that did not come.
        late: blocks that outlived their planned end.
        plan: number of the plan that the iteration ended with, -1 while there is none.
        bytes_unplanned: sum of the sizes of requests that the plan leaves out, as optimizer state
            in the iteration in which it is born.
        driver_calls: of the driver's virtual memory, by kind: those of `DRIVER_CALLS`.
        hand_overs: pages that came from another stream.
        waits_added: waits for another stream that the program's own events do not imply, as far as
            they are heard. Too many where the program records events by calls of CUDA's own, as
            libraries of collectives do within. Too few where a stream is given more work on a block
            after the program's last event there, for only its requests are heard: the wait is
            taken for the one that the program has, and is longer.

    Example:
        >>> one = IterationStatistics(Phase.REPLAY, 4, 3, 400, 390)
        >>> one.hit_rate, one.hit_bytes_rate
        (0.75, 0.975)
    """

    phase: Phase
    requests: int
    hits: int
    bytes_requested: int
    bytes_hit: int
    misses: Mapping[str, int] = field(default_factory=dict)
    skipped: int = 0
    late: int = 0
    plan: int = -1
    bytes_unplanned: int = 0
    driver_calls: Mapping[str, int] = field(default_factory=dict)
    hand_overs: int = 0
    waits_added: int = 0

    @property
    def pages_moved(self) -> int:
        """Pages mapped at another address than before; new ones are mapped in any case."""
        return max(0, self.driver_calls["maps"] - self.driver_calls["creates"])

    @property
    def hit_rate(self) -> float:
        """Share of the requests that were served from slots; 1 when there were none."""
        return self.hits / self.requests if self.requests else 1.0

    @property
    def planned_bytes_rate(self) -> float:
        """Share of the bytes that the plan has slots for, which came from them; 1 without any."""
        planned = self.bytes_requested - self.bytes_unplanned
        return self.bytes_hit / planned if planned else 1.0

    @property
    def known_rate(self) -> float:
        """Share of the requests that the plan expected, whether their slots were free or not."""
        unknown = self.misses.get("unknown", 0)
        return 1 - unknown / self.requests if self.requests else 1.0

    @property
    def hit_bytes_rate(self) -> float:
        """Share of the bytes that were served from slots; 1 when there were none."""
        return self.bytes_hit / self.bytes_requested if self.bytes_requested else 1.0
