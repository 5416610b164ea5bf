"""Statistics of one iteration."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

MISS_REASONS: Mapping[str, str] = {
    "persistent": "in the plan, but without a slot",
    "unknown": "not in the plan",
    "too_large": "larger than when it was planned",
    "occupied": "slot still held by its previous block",
    "late": "slot overlaps a block that outlived its planned end",
    "no_arena": "no arena for the stream, or no page available",
}
"""Reasons why no slot served a request."""

MISS_ADVICE: Mapping[str, str] = {
    "persistent": "nothing to do: pages or the framework serve these blocks",
    "unknown": "mark whole iterations; put evaluation and logging into `session.pause()`",
    "too_large": "record the largest input first; the plan grows after one iteration",
    "occupied": "look for lists of losses and outputs; `loss.item()` instead of `loss`",
    "late": "look for lists of losses and outputs; `loss.item()` instead of `loss`",
    "no_arena": "nothing to do, unless the number rises in each iteration",
}
"""Advice for each reason. A test compares it with the table in docs/guides/troubleshooting.md."""


class Phase(StrEnum):
    """State of a session during an iteration; see lifecycle.py."""

    RECORD = "record"
    BACKOFF = "backoff"
    REPLAY = "replay"
    BYPASS = "bypass"
    CLOSED = "closed"


DRIVER_CALLS = ("creates", "releases", "maps", "grants", "unmaps", "events", "waits")
"""Kinds of driver calls that pages need: create, release, map, grant access to and unmap a page;
record an event, and make a stream wait for an event."""


@dataclass(frozen=True)
class IterationStatistics:
    """Statistics of one iteration. Requests of zero bytes are not counted; sizes are in bytes.

    Args:
        phase: phase of the session. Slots serve requests in `REPLAY`, and in `RECORD` while earlier
            plans serve. In `BACKOFF` and `BYPASS`, requests are neither recorded nor counted.
        requests: number of requests.
        hits: requests that were served from their slots.
        bytes_requested: total bytes of all requests.
        bytes_hit: total bytes of requests served from slots.
        misses: number of misses by reason, with the keys of `MISS_REASONS`.
        skipped: planned requests that did not occur.
        late: blocks that outlived their planned lifetime.
        plan: number of the plan that the iteration ended with; -1 while there is none.
        bytes_unplanned: total bytes of requests that are in the plan, but without a slot, such as
            optimizer state in the iteration that allocates it.
        driver_calls: calls of the driver's virtual memory, by kind (`DRIVER_CALLS`).
        hand_overs: pages that came from another stream.
        waits_added: estimated number of waits for another stream that the program's own events do
            not imply. The number is too high if libraries record events by direct CUDA calls, which
            pgmo does not see. It is too low if a stream works on a block after the program's last
            event on that stream: the longer wait then counts as the program's own.

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
        """Number of existing pages that were mapped at another address."""
        return max(0, self.driver_calls.get("maps", 0) - self.driver_calls.get("creates", 0))

    @property
    def recurring_moves(self) -> int:
        """`pages_moved`; 0 in an iteration that creates pages, because its moves do not recur."""
        return 0 if self.driver_calls.get("creates") else self.pages_moved

    @property
    def hit_rate(self) -> float:
        """Share of requests served from slots; 1 without requests."""
        return self.hits / self.requests if self.requests else 1.0

    @property
    def planned_bytes_rate(self) -> float:
        """Share of bytes, without `bytes_unplanned`, that slots served; 1 without such bytes."""
        planned = self.bytes_requested - self.bytes_unplanned
        return self.bytes_hit / planned if planned else 1.0

    @property
    def known_rate(self) -> float:
        """Share of requests that the plan has, served or not; 1 without requests."""
        unknown = self.misses.get("unknown", 0)
        return 1 - unknown / self.requests if self.requests else 1.0

    @property
    def hit_bytes_rate(self) -> float:
        """Share of requested bytes served from slots; 1 without requests."""
        return self.bytes_hit / self.bytes_requested if self.bytes_requested else 1.0
