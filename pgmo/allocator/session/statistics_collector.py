"""Turns the engine's counters into statistics per iteration and a summary."""

from collections import Counter, deque
from collections.abc import Iterable
from itertools import islice, repeat

import numpy as np

from pgmo import _core
from pgmo.allocator import heuristics
from pgmo.allocator.session.statistics import (
    DRIVER_CALLS,
    MISS_REASONS,
    IterationStatistics,
    Phase,
)
from pgmo.allocator.session.verdict.summary import Summary
from pgmo.locks import new_reentrant_lock
from pgmo.packing.plan import Plan

_HISTORY = 10_000
"""Iterations of which the statistics are kept one by one; sums are kept of all."""

_LAST = 16
"""Iterations of which the driver calls are summed up."""

_LEVELS = ("live_", "peak_", "pages_", "planned_", "arena", "late_now")
"""How the names of readings begin that are levels, not counters."""

_SUMMED = ("requests", "hits", "bytes_requested", "bytes_hit")


class StatisticsCollector:
    """Reads an engine's counters once an iteration.

    Attributes:
        passing: phase of the iterations that pass without a look at each.
    """

    def __init__(self, engine: _core.Engine) -> None:
        self._engine = engine
        self._begin = self._before = engine.statistics()
        self._passed = 0  # iterations that nobody has looked at
        self._followed: dict[int, int] = {}  # the last of them that has followed a plan, by plan
        self.passing = Phase.REPLAY
        # Others than the session's threads read, and so do handlers of signals amid a count.
        self._lock = new_reentrant_lock()
        self._closed = False
        self._totals: Counter[str] = Counter()
        self._misses: Counter[str] = Counter()
        # Of replayed iterations; the engine's begin anew with each plan.
        self._peaks = {"peak_slot_bytes": 0, "peak_fallback_bytes": 0}
        self._since = 0
        self._history: deque[IterationStatistics] = deque(maxlen=_HISTORY)

    @property
    def history(self) -> list[IterationStatistics]:
        """Of each iteration, in order; of the last ones in a long session."""
        with self._lock:
            self._take_passed()
            return list(self._history)

    @property
    def history_end(self) -> IterationStatistics | None:
        """Of the last iteration; None before the first."""
        with self._lock:
            self._take_passed()
            return self._history[-1] if self._history else None

    @property
    def iterations(self) -> int:
        """Iterations so far."""
        with self._lock:
            self._take_passed()
            return self._totals["iterations"]

    def take_passed(self) -> tuple[int, dict[int, int]]:
        """Return what has passed since the last call without being looked at.

        Returns:
            The number of iterations; and by plan the number of the last one that has followed it.
        """
        with self._lock:
            self._take_passed()
            passed, followed = self._passed, self._followed
            self._passed, self._followed = 0, {}
            return passed, followed

    def leave_out_driver_calls(self) -> None:
        """Leave out the driver calls since the last iteration: those of another session's turn."""
        with self._lock:
            now = self._engine.statistics()
            calls = {f"page_{call}": now[f"page_{call}"] for call in DRIVER_CALLS}
            self._before = self._before | calls

    def close(self) -> None:
        """Counts what has passed, and nothing from now on: the engine may get another session."""
        with self._lock:
            self._take_passed()
            self._closed = True

    def count(self, phase: Phase, plan: int) -> IterationStatistics:
        """Adds the iteration that has just ended to the history, and returns it."""
        with self._lock:
            self._take_passed()
            now, before = self._engine.statistics(), self._before
            change = {name: now[name] - before[name] for name in now}
            if phase is Phase.RECORD:
                # Replay counts only while it serves; the recorder sees every request.
                change["requests"] = change["recorded_requests"]
                change["requested_bytes"] = change["recorded_bytes"]
            statistics = _statistics(phase, plan, change)
            self._add(statistics, 1, now)
            return statistics

    def _take_passed(self) -> None:
        """Counts what has passed in the engine."""
        if self._closed:
            return
        runs, at_end = self._engine.take_passed()
        for iterations, plan, change in runs:
            plan = plan if self.passing is Phase.REPLAY else -1
            statistics = _statistics(self.passing, plan, change)
            self._add(statistics, iterations, at_end)
            self._passed += iterations
            self._followed[plan] = self._totals["iterations"]

    def _add(self, statistics: IterationStatistics, times: int, now: dict[str, int]) -> None:
        """Adds iterations that are all alike, and the readings at their end."""
        self._before = now
        self._history.extend(repeat(statistics, min(times, _HISTORY)))
        phase, totals = statistics.phase, self._totals
        worthwhile = heuristics.current.worthwhile_share * statistics.bytes_requested
        if not self._since and statistics.bytes_hit > worthwhile:
            self._since = totals["iterations"] + 1
        totals["iterations"] += times
        recorded = phase is Phase.RECORD
        totals["recorded"] += times * recorded
        totals["served_while_recording"] += times * (recorded and statistics.bytes_hit > 0)
        totals["waited"] += times * (phase is Phase.BACKOFF)
        totals["uncounted"] += times * (phase is Phase.BYPASS)
        totals["run_bytes"] += times * statistics.bytes_requested
        totals["run_bytes_hit"] += times * statistics.bytes_hit
        if phase is Phase.REPLAY:
            totals["replayed"] += times
            for name, bytes_ in self._peaks.items():
                self._peaks[name] = max(bytes_, now[name])
            for name in _SUMMED:
                totals[name] += times * getattr(statistics, name)
            for reason, missed in statistics.misses.items():
                self._misses[reason] += times * missed

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
        with self._lock:
            self._take_passed()
            return self._summary(plan, plans, replans, notes, waits)

    def _summary(
        self, plan: Plan | None, plans: int, replans: int, notes: tuple[str, ...], waits: str
    ) -> Summary:
        now = self._engine.statistics()
        totals, recent = self._totals, list(islice(reversed(self._history), _LAST))
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
            arena=min(plan.arena, now["planned_pages"] or plan.arena) if plan else 0,
            max_load=plan.max_load if plan else 0,
            spilled=plan.spilled if plan else 0,
            solver=plan.solver if plan else "",
            plans=plans,
            replans=replans,
            peak_slot_bytes=max(now["peak_slot_bytes"], self._peaks["peak_slot_bytes"]),
            peak_fallback_bytes=max(now["peak_fallback_bytes"], self._peaks["peak_fallback_bytes"]),
            driver_calls={
                call: _median(one.driver_calls[call] for one in recent)
                for call in DRIVER_CALLS
                if recent
            },
            pages=now["peak_pages_held"],
            waited=totals["waited"],
            waits=waits,
            notes=notes,
            run_bytes=totals["run_bytes"],
            run_bytes_hit=totals["run_bytes_hit"],
            uncounted=totals["uncounted"],
            served_while_recording=totals["served_while_recording"],
            since=self._since,
            ordered_load=plan.ordered_load if plan else None,
            hand_overs=_median(one.hand_overs for one in recent),
            waits_added=_median(one.waits_added for one in recent),
        )


def _median(counts: Iterable[int]) -> float:
    """Return the median; 0 where nothing was counted."""
    from statistics import median  # and decimal numbers, which need not be there in the loop

    return float(median([*counts] or [0]))


def _statistics(phase: Phase, plan: int, change: dict[str, int]) -> IterationStatistics:
    """Of an iteration, in which the counters have changed by so much."""
    return IterationStatistics(
        phase=phase,
        requests=change["requests"],
        hits=change["hits"],
        bytes_requested=change["requested_bytes"],
        bytes_hit=change["hit_bytes"],
        misses={reason: change[reason] for reason in MISS_REASONS},
        skipped=change["skipped"],
        late=change["late_blocks"],
        plan=plan,
        bytes_unplanned=change["persistent_bytes"],
        driver_calls={call: change[f"page_{call}"] for call in DRIVER_CALLS},
        hand_overs=change["page_hand_overs"],
        waits_added=change["page_waits_added"],
    )
