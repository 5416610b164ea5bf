"""Conversion of the engine's counters into statistics per iteration and a summary."""

from collections import deque
from collections.abc import Iterable
from itertools import islice, repeat
from typing import Any

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
"""Number of iterations with separate statistics. Older iterations count only in totals."""

_LAST = 16
"""Number of latest iterations over which the summary takes medians."""

_LEVELS = ("live_", "peak_", "pages_", "planned_", "arena", "late_now")
"""Name prefixes of the engine's figures that are current levels, not counters."""

_SUMMED = ("requests", "hits", "bytes_requested", "bytes_hit")

_TOTALS = (
    *("iterations", "recorded", "served_while_recording", "replayed", "waited", "uncounted"),
    *("run_bytes", "run_bytes_hit", *_SUMMED),
)
"""Fields of `Summary` that are counted up."""


class StatisticsCollector:
    """Collector of an engine's counters at the ends of iterations.

    Attributes:
        passing: phase of the iterations that the engine ends by itself.
    """

    def __init__(self, engine: _core.Engine) -> None:
        self._engine = engine
        self._begin = self._before = engine.statistics()
        # Number of iterations and of moved pages that `take_passed` has not returned yet.
        self._passed = self._moved = 0
        self._followed: dict[int, int] = {}
        self.passing = Phase.REPLAY
        # Reentrant, because a signal handler that uses this object may interrupt a count.
        self._lock = new_reentrant_lock()
        self._closed = False
        self._totals: dict[str, Any] = dict.fromkeys(_TOTALS, 0)
        self._misses = dict.fromkeys(MISS_REASONS, 0)
        # Peaks over all replayed iterations. The engine resets its own peaks with each plan.
        self._peaks = {"peak_slot_bytes": 0, "peak_fallback_bytes": 0}
        self._peak_live = 0  # of all iterations
        self._since = 0
        self._history: deque[IterationStatistics] = deque(maxlen=_HISTORY)

    @property
    def history(self) -> list[IterationStatistics]:
        """Statistics of each iteration, in order; at most the latest 10,000."""
        with self._lock:
            self._take_passed()
            return list(self._history)

    @property
    def history_end(self) -> IterationStatistics | None:
        """Statistics of the last iteration; None before the first."""
        with self._lock:
            self._take_passed()
            return self._history[-1] if self._history else None

    @property
    def iterations(self) -> int:
        """Number of iterations so far."""
        with self._lock:
            self._take_passed()
            return int(self._totals["iterations"])

    def take_passed(self) -> tuple[int, int, dict[int, int]]:
        """Return figures on the iterations that the engine ended by itself since the last call.

        The figures are: iterations, recurring page moves, and each plan's last iteration number.
        """
        with self._lock:
            self._take_passed()
            passed, moved, followed = self._passed, self._moved, self._followed
            self._passed, self._moved, self._followed = 0, 0, {}
            return passed, moved, followed

    def leave_out_driver_calls(self) -> None:
        """Ignore driver calls since the last iteration, because another session had the turn."""
        with self._lock:
            now = self._engine.statistics()
            calls = {f"page_{call}": now[f"page_{call}"] for call in DRIVER_CALLS}
            self._before = self._before | calls

    def close(self) -> None:
        """Count the last iterations, then stop, because another session may use the engine next."""
        with self._lock:
            self._take_passed()
            self._closed = True

    def count(self, phase: Phase, plan: int) -> IterationStatistics:
        """Add the iteration that has just ended to the history; return its statistics."""
        with self._lock:
            self._take_passed()
            now, before = self._engine.statistics(), self._before
            change = {name: now[name] - before[name] for name in now}
            if phase is Phase.RECORD:
                # The replay counters omit requests that no plan serves. The recorder counts all
                # requests.
                change["requests"] = change["recorded_requests"]
                change["requested_bytes"] = change["recorded_bytes"]
            statistics = _statistics(phase, plan, change)
            self._add(statistics, 1, now)
            return statistics

    def _take_passed(self) -> None:
        if self._closed:
            return
        runs, at_end = self._engine.take_passed()
        for iterations, plan, change in runs:
            plan = plan if self.passing is Phase.REPLAY else -1
            statistics = _statistics(self.passing, plan, change)
            self._add(statistics, iterations, at_end)
            self._passed += iterations
            self._moved += iterations * statistics.recurring_moves
            self._followed[plan] = self._totals["iterations"]

    def _add(self, statistics: IterationStatistics, times: int, now: dict[str, int]) -> None:
        """Add `times` equal iterations; `now` has the engine's counters at their end."""
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
        self._peak_live = max(self._peak_live, _peak(now))
        if phase is Phase.REPLAY:
            totals["replayed"] += times
            for name, bytes_ in self._peaks.items():
                self._peaks[name] = max(bytes_, now[name])
            for name in _SUMMED:
                totals[name] += times * getattr(statistics, name)
            for reason, missed in statistics.misses.items():
                self._misses[reason] += times * missed

    @property
    def peak_live(self) -> int:
        """Peak of the live bytes, in slots and outside, since the session began."""
        with self._lock:
            return max(self._peak_live, _peak(self._engine.statistics()))

    def counters(self) -> dict[str, int]:
        """Return the engine's counters since the session began, and its levels as they are now."""
        return {
            name: value if name.startswith(_LEVELS) else value - self._begin[name]
            for name, value in self._engine.statistics().items()
        }

    def summary(self, plan: Plan | None, **others: Any) -> Summary:
        """Return the totals so far; `others` are fields that are not counted here."""
        if plan is not None:
            others |= {
                "blocks": int(np.count_nonzero(plan.offset >= 0)),
                "arena": min(plan.arena, self._engine.statistics()["planned_pages"] or plan.arena),
                "max_load": plan.max_load,
                "spilled": plan.spilled,
                "solver": plan.solver,
                "ordered_load": plan.ordered_load,
            }
        with self._lock:
            self._take_passed()
            return self._summary(**others)

    def _summary(self, **others: Any) -> Summary:
        now = self._engine.statistics()
        recent = list(islice(reversed(self._history), _LAST))
        return Summary(
            **self._totals,
            misses=dict(self._misses),
            peak_slot_bytes=max(now["peak_slot_bytes"], self._peaks["peak_slot_bytes"]),
            peak_fallback_bytes=max(now["peak_fallback_bytes"], self._peaks["peak_fallback_bytes"]),
            driver_calls={
                call: _median(one.driver_calls[call] for one in recent)
                for call in DRIVER_CALLS
                if recent
            },
            pages=now["peak_pages_held"],
            since=self._since,
            hand_overs=_median(one.hand_overs for one in recent),
            waits_added=_median(one.waits_added for one in recent),
            **others,
        )


def _median(counts: Iterable[int]) -> float:
    """Return the median; 0 without counts."""
    from statistics import median  # imports `decimal`, which the loop does not need

    return float(median([*counts] or [0]))


def _statistics(phase: Phase, plan: int, change: dict[str, int]) -> IterationStatistics:
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


def _peak(statistics: dict[str, int]) -> int:
    """Return the peak of the live bytes since the engine last reset its peaks."""
    return statistics["peak_slot_bytes"] + statistics["peak_fallback_bytes"]
