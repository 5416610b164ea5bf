"""Summary of a session: total counters and the verdict."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape

from pgmo.allocator.session.statistics import MISS_ADVICE, MISS_REASONS
from pgmo.allocator.session.verdict.growth import LiveGrowth
from pgmo.allocator.session.verdict.verdict import Verdict, percent
from pgmo.units import format_bytes


@dataclass(frozen=True)
class Summary:
    """Totals of a session. `str` returns them as readable text.

    Sizes are in bytes. Medians are over the latest 16 iterations.

    Args:
        iterations: number of iterations.
        recorded: iterations in `RECORD`.
        replayed: iterations in `REPLAY`. The next five fields count only these iterations.
        requests: number of requests.
        hits: requests served from slots.
        bytes_requested: total bytes of requests.
        bytes_hit: total bytes served from slots.
        misses: number of misses by reason.
        blocks: number of blocks with a slot in the latest plan.
        arena: bytes that the plan needs; if arenas of several streams share pages, bytes of pages.
        max_load: the plan's largest sum of live bytes at any tick.
        solver: name of the plan's solver.
        plans: number of plans.
        replans: decisions to replace a plan, after divergences or for larger requests.
        peak_slot_bytes: peak of live bytes in slots.
        peak_fallback_bytes: peak of live bytes outside the plan.
        spilled: bytes of the arena that lie in unified memory, on the host.
        managed: peak of unified memory.
        card_room: bytes that the card had free before unified memory was used.
        pages: peak bytes of pages.
        driver_calls: driver calls for pages per iteration, by kind (medians).
        waited: iterations in `BACKOFF`, served without plan or recording.
        waits: reason why no plan serves; "" while a plan serves, and in the first recording.
        notes: notes and warnings.
        run_bytes: bytes requested in all iterations in `RECORD` and `REPLAY`.
        run_bytes_hit: the part of `run_bytes` that slots served.
        uncounted: iterations in `BYPASS`, whose requests are not counted.
        served_while_recording: recorded iterations in which slots served as well.
        since: number of the first iteration in which slots served most bytes, from 1; 0 for none.
        ordered_load: lower bound of `arena` if streams hand memory over only in the order that the
            program's own events imply; None if unknown.
        hand_overs: pages that moved between streams per iteration (median).
        waits_added: waits of streams per iteration that the program's own events do not imply
            (median).
        growth: growth of live memory from iteration to iteration; None if it does not grow.
        kept: references that keep the largest live blocks, one line each; empty if unknown.
        verdict: comparison with plain PyTorch; None if it was not requested.
        steps: number of steps per iteration now.

    Example:
        >>> print(Summary(iterations=0, recorded=0, replayed=0))
        pgmo: no iteration was seen; call session.step() at the end of each iteration.
    """

    iterations: int
    recorded: int
    replayed: int
    requests: int = 0
    hits: int = 0
    bytes_requested: int = 0
    bytes_hit: int = 0
    misses: Mapping[str, int] = field(default_factory=dict)
    blocks: int = 0
    arena: int = 0
    max_load: int = 0
    solver: str = ""
    plans: int = 0
    replans: int = 0
    peak_slot_bytes: int = 0
    peak_fallback_bytes: int = 0
    spilled: int = 0
    managed: int = 0
    card_room: int = 0
    pages: int = 0
    driver_calls: Mapping[str, float] = field(default_factory=dict)
    waited: int = 0
    waits: str = ""
    notes: tuple[str, ...] = ()
    run_bytes: int = 0
    run_bytes_hit: int = 0
    uncounted: int = 0
    served_while_recording: int = 0
    since: int = 0
    ordered_load: int | None = None
    hand_overs: float = 0
    waits_added: float = 0
    growth: LiveGrowth | None = None
    kept: tuple[str, ...] = ()
    verdict: Verdict | None = None
    steps: int = 1

    @property
    def run_share(self) -> float:
        """Share of `run_bytes` that slots served; 0 without requests."""
        return self.run_bytes_hit / self.run_bytes if self.run_bytes else 0.0

    @property
    def hit_rate(self) -> float:
        """Share of requests in replayed iterations that slots served; 0 without requests."""
        return self.hits / self.requests if self.requests else 0.0

    @property
    def hit_bytes_rate(self) -> float:
        """Share of bytes in replayed iterations that slots served; 0 without requests."""
        return self.bytes_hit / self.bytes_requested if self.bytes_requested else 0.0

    @property
    def oversubscription(self) -> float:
        """Ratio of `managed` to `card_room`, 0 if unknown. Above 1, pages moved over the bus."""
        return self.managed / self.card_room if self.card_room else 0.0

    @property
    def gap(self) -> float:
        """Relative excess of the arena over the max load, a lower bound; 0 without a plan."""
        return self.arena / self.max_load - 1 if self.max_load else 0.0

    @property
    def ordered_gap(self) -> float:
        """Relative excess of the arena over `ordered_load`; 0 if `ordered_load` is unknown."""
        return self.arena / self.ordered_load - 1 if self.ordered_load else 0.0

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"

    def __str__(self) -> str:
        if not self.iterations:
            return "pgmo: no iteration was seen; call session.step() at the end of each iteration."
        counted = self._iterations_by_phase()
        lines = []
        if self.growth is not None:
            lines = [f"pgmo: {self.growth}", *(f"  kept by    {one}" for one in self.growth.kept)]
        if self.verdict is None:
            lines.append(f"pgmo: {counted}")
        else:
            lines.append(f"pgmo: {self.verdict}")
            if self.verdict.basis:
                lines.append(f"  figures    {self.verdict.basis}")
            lines.extend(
                f"  error      figures contradict each other ({one}): please report this"
                for one in self.verdict.wrong
            )
            lines.append(f"  run        {counted}")
            lines.extend(self._run_from_slots())
            if self.verdict.reason:
                lines.append(f"  plan       none: {self.verdict.reason}")
        if self.waits:
            lines.append(f"  plan       none serves: {self.waits}")
        if self.plans and self.blocks:
            plans = "one plan" if self.plans == 1 else f"{self.plans} plans"
            lines.append(
                f"  arena      {format_bytes(self.arena)} for {self.blocks} blocks, "
                f"{self.gap:.2%} above the max load of {format_bytes(self.max_load)} "
                f"({self.solver}; {plans})"
            )
        if self.ordered_load:
            lines.append(
                f"  streams    {self.ordered_gap:.2%} above {format_bytes(self.ordered_load)}, the "
                "minimum in the program's own order; per iteration (median): "
                f"{self.hand_overs:g} pages handed over, {self.waits_added:g} waits added"
            )
        if self.requests:
            lines.append(
                f"  replay     {self.hit_rate:.2%} of {self.requests} requests and "
                f"{self.hit_bytes_rate:.3%} of {format_bytes(self.bytes_requested)} from slots"
            )
            lines.extend(
                f"  misses     {count} {MISS_REASONS[reason]}; {MISS_ADVICE[reason]}"
                for reason, count in self.misses.items()
                if count
            )
            lines.append(
                f"  peak       {format_bytes(self.peak_slot_bytes)} in slots, "
                f"{format_bytes(self.peak_fallback_bytes)} outside the plan"
            )
        if self.spilled:
            lines.append(
                f"  spilled    {format_bytes(self.spilled)} of the arena are in unified memory, on "
                "the host"
            )
        if self.pages:
            calls = [f"{count:g} {call}" for call, count in self.driver_calls.items() if count]
            lines.append(
                f"  pages      {format_bytes(self.pages)} of the card at most; driver calls per "
                f"iteration (median): {', '.join(calls) or 'none'}"
            )
        if self.managed:
            lines.append(
                f"  unified    {format_bytes(self.managed)} at most, {self.oversubscription:.2f} "
                f"times the {format_bytes(self.card_room)} that the card had free"
            )
        lines.extend(f"  alive      {one}" for one in self.kept)
        lines.extend(f"  note       {note}" for note in self.notes)
        return "\n".join(lines)

    def _iterations_by_phase(self) -> str:
        served = self.served_while_recording
        recorded = f"{self.recorded} recorded"
        if served:
            of_them = (
                "slots served all of them"
                if served == self.recorded
                else (f"slots served {served} of them")
            )
            recorded += f" ({of_them})"
        iterations = f"{self.iterations} iterations"
        if self.steps > 1:
            iterations += f" (now of {self.steps} steps each, which repeat only together)"
        parts = [iterations, recorded, f"{self.replayed} replayed"]
        if self.waited:
            parts.append(f"{self.waited} without a plan or a recording")
        if self.uncounted:
            parts.append(f"{self.uncounted} without slots (not counted)")
        return ", ".join(parts)

    def _run_from_slots(self) -> list[str]:
        if not self.run_bytes:
            return []
        counted = self.iterations - self.uncounted - self.waited
        of = f"all {counted}" if counted == self.iterations else f"the {counted} counted"
        since = f"; iteration {self.since} was the first with more than half" if self.since else ""
        return [
            f"  run        {percent(self.run_share)} of the {format_bytes(self.run_bytes)} that "
            f"{of} iterations requested came from slots{since}"
        ]
