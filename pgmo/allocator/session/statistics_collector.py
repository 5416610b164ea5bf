"""Turns the engine's counters into statistics per iteration and a summary."""

from collections import Counter, deque
from itertools import islice
from statistics import median

import numpy as np

from pgmo import _core
from pgmo.allocator.session.statistics import (
    DRIVER_CALLS,
    MISS_REASONS,
    IterationStatistics,
    Phase,
    Summary,
)
from pgmo.allocator.session.verdict.evidence import Beginning, outside_of_plan
from pgmo.allocator.tuning import WORTHWHILE_SHARE
from pgmo.packing.plan import Plan
from pgmo.profiler.recording import REQUEST

_HISTORY = 10_000
"""Iterations of which the statistics are kept one by one; sums are kept of all."""

_LAST = 16
"""Iterations of which the driver calls are summed up."""

_MOST_KEPT = 500_000
"""Events of a recording that are kept for the verdict: 16 MB."""

_LEVELS = ("live_", "peak_", "pages_", "arena", "late_now")
"""How the names of readings begin that are levels, not counters."""

_SUMMED = ("requests", "hits", "bytes_requested", "bytes_hit")


class StatisticsCollector:
    """Reads an engine's counters once an iteration.

    Example:
        >>> collector = StatisticsCollector(_core.Engine())
        >>> collector.count(Phase.RECORD, plan=-1).requests
        0
    """

    def __init__(self, engine: _core.Engine) -> None:
        self._engine = engine
        self._begin = self._before = engine.statistics()
        self._change: dict[str, int] = {}  # of the last iteration that was counted
        self._again = 0  # how often it has come again since
        self._events = 0
        self._totals: Counter[str] = Counter()
        self._misses: Counter[str] = Counter()
        # Of replayed iterations; the engine's begin anew with each plan.
        self._peaks = {"peak_slot_bytes": 0, "peak_fallback_bytes": 0}
        self._least_fallback = -1  # at the end of one of them; -1 before the first
        self._since = 0
        self.history: deque[IterationStatistics] = deque(maxlen=_HISTORY)

    @property
    def iterations(self) -> int:
        """Iterations so far."""
        return self._totals["iterations"] + self._again

    def recording_begins(self) -> None:
        """To be called when the engine has forgotten its earlier events."""
        self._events = 0

    def count_again(self) -> None:
        """Adds a replayed iteration that was the last one over again; costs next to nothing."""
        self._again += 1
        self.history.append(self.history[-1])

    def _settle(self) -> None:
        """Counts what has come again."""
        again, self._again = self._again, 0
        if not again:
            return
        last, totals = self.history[-1], self._totals
        for name in _SUMMED:
            totals[name] += again * getattr(last, name)
        for name in ("iterations", "replayed"):
            totals[name] += again
        totals["run_bytes"] += again * last.bytes_requested
        totals["run_bytes_hit"] += again * last.bytes_hit
        for reason, missed in last.misses.items():
            self._misses[reason] += again * missed
        for name, change in self._change.items():
            if not name.startswith(_LEVELS):
                self._before[name] += again * change

    def count(self, phase: Phase, plan: int) -> IterationStatistics:
        """Adds the iteration that has just ended to the history, and returns it."""
        self._settle()
        now, before = self._engine.statistics(), self._before
        self._before = now
        change = self._change = {name: now[name] - before[name] for name in now}
        requests, requested_bytes = change["requests"], change["requested_bytes"]
        if phase in (Phase.RECORD, Phase.VERIFY, Phase.WAIT):
            # Replay counts only while it serves; the recorder sees every request.
            events = self._engine.events(self._events)
            self._events += len(events)
            events = events[events["kind"] == REQUEST]
            requests, requested_bytes = len(events), int(events["bytes"].sum())
        statistics = IterationStatistics(
            phase=phase,
            requests=requests,
            hits=change["hits"],
            bytes_requested=requested_bytes,
            bytes_hit=change["hit_bytes"],
            misses={reason: change[reason] for reason in MISS_REASONS},
            skipped=change["skipped"],
            late=change["late_blocks"],
            plan=plan,
            bytes_unplanned=change["persistent_bytes"],
            driver_calls={call: change[f"page_{call}"] for call in DRIVER_CALLS},
        )
        self.history.append(statistics)
        self._totals["iterations"] += 1
        self._totals["recorded"] += phase in (Phase.RECORD, Phase.VERIFY)
        self._totals["waited"] += phase is Phase.WAIT
        self._totals["uncounted"] += phase is Phase.BYPASS
        self._totals["run_bytes"] += requested_bytes
        self._totals["run_bytes_hit"] += statistics.bytes_hit
        if not self._since and statistics.bytes_hit > WORTHWHILE_SHARE * requested_bytes:
            self._since = self._totals["iterations"]
        if phase is Phase.REPLAY:
            self._totals["replayed"] += 1
            fallback = now["live_fallback_bytes"]
            if self._least_fallback < 0 or fallback < self._least_fallback:
                self._least_fallback = fallback
            for name, bytes_ in self._peaks.items():
                self._peaks[name] = max(bytes_, now[name])
            for name in _SUMMED:
                self._totals[name] += getattr(statistics, name)
            self._misses.update(statistics.misses)
        return statistics

    def _driver_calls(self) -> dict[str, float]:
        """Of the last iterations, in the middle, by kind."""
        last = [one.driver_calls for one in islice(reversed(self.history), _LAST)]
        return {call: median(calls[call] for calls in last) for call in DRIVER_CALLS if last}

    def outside_of_plan(self) -> int:
        """Bytes at once in the last replayed iterations that had no slot, at most."""
        now = self._engine.statistics()["peak_fallback_bytes"]
        peak = max(now, self._peaks["peak_fallback_bytes"])
        return outside_of_plan(reversed(self.history), peak, max(0, self._least_fallback))

    def beginning(self, iterations: int) -> Beginning | None:
        """What was recorded from the first request on; None where that is too much to keep.

        To be called while the recording is still there.
        """
        events = self._engine.events()
        if len(events) > _MOST_KEPT:
            return None
        pages = self._engine.statistics()["peak_pages_held"]
        return Beginning(events, iterations, pages, self._begin["pages_held"])

    def counters(self) -> dict[str, int]:
        """The engine's counters since the session began, and its levels now."""
        return {
            name: value if name.startswith(_LEVELS) else value - self._begin[name]
            for name, value in self._engine.statistics().items()
        }

    def summary(
        self, plan: Plan | None, plans: int, replans: int, notes: tuple[str, ...], waits: str = ""
    ) -> Summary:
        """What has been done so far."""
        self._settle()
        now = self._engine.statistics()
        totals = self._totals
        return Summary(
            iterations=totals["iterations"],
            recorded=totals["recorded"],
            replayed=totals["replayed"],
            requests=totals["requests"],
            hits=totals["hits"],
            bytes_requested=totals["bytes_requested"],
            bytes_hit=totals["bytes_hit"],
            misses={reason: self._misses[reason] for reason in MISS_REASONS},
            blocks=int(np.count_nonzero(plan.offset >= 0)) if plan else 0,
            arena=plan.arena if plan else 0,
            max_load=plan.max_load if plan else 0,
            spilled=plan.spilled if plan else 0,
            solver=plan.solver if plan else "",
            plans=plans,
            replans=replans,
            peak_slot_bytes=max(now["peak_slot_bytes"], self._peaks["peak_slot_bytes"]),
            peak_fallback_bytes=max(now["peak_fallback_bytes"], self._peaks["peak_fallback_bytes"]),
            driver_calls=self._driver_calls(),
            pages=now["peak_pages_held"],
            waited=totals["waited"],
            waits=waits,
            notes=notes,
            run_bytes=totals["run_bytes"],
            run_bytes_hit=totals["run_bytes_hit"],
            uncounted=totals["uncounted"],
            since=self._since,
        )
