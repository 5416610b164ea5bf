"""What a session can say at any moment: what it has done, with a verdict, and a recording."""

from dataclasses import replace

from pgmo.allocator.plans.plan_set import PlanSet
from pgmo.allocator.session.recorder import Recorder
from pgmo.allocator.session.state import SessionState
from pgmo.allocator.session.statistics_collector import StatisticsCollector
from pgmo.allocator.session.verdict.judge import judge
from pgmo.allocator.session.verdict.summary import Summary
from pgmo.profiler.iterations.linear_profile import linear_profile
from pgmo.profiler.profile import Profile


class Account:
    """Reads what the parts of a session know, and changes none of them.

    Args:
        state: where the session stands.
        collector: has counted.
        recorder: has the tags of what was recorded.
        plans: those that serve.
    """

    def __init__(
        self,
        state: SessionState,
        collector: StatisticsCollector,
        recorder: Recorder,
        plans: PlanSet,
    ) -> None:
        self._state = state
        self._collector = collector
        self._recorder = recorder
        self._plans = plans

    def summary(self, *, with_verdict: bool = False) -> Summary:
        """Return what has been done so far; before the session's end, if with a verdict."""
        state = self._state
        notes = tuple(note for note in (*state.notes, state.adapter.note) if note)
        summary = self._collector.summary(
            state.plan, len(self._plans), state.replans, notes, state.waits
        )
        if not with_verdict:
            return summary
        why = state.gave_up
        if not why and state.options.record_only:
            why = "the session was opened with record_only"
        return replace(summary, verdict=judge(summary, state.adapter.baseline(), why))

    def recording(self) -> Profile | None:
        """What has been recorded since recording began, up to this moment, as a line."""
        meta = self._state.meta({"found": "everything up to one moment"})
        return linear_profile(self._state.adapter.engine.events(), self._recorder.tags, meta)
