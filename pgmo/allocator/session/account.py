"""What a session can tell at any moment: what it has done, evidence for a verdict, a recording."""

from pgmo.allocator.plans.plan_set import PlanSet
from pgmo.allocator.session.recorder import Recorder
from pgmo.allocator.session.state import SessionState
from pgmo.allocator.session.statistics import Summary
from pgmo.allocator.session.statistics_collector import StatisticsCollector
from pgmo.allocator.session.verdict.evidence import Evidence
from pgmo.profiler.iterations.linear_profile import linear_profile
from pgmo.profiler.profile import Profile


class Account:
    """Reads what the parts of a session know, and changes none of them.

    Args:
        state: where the session stands.
        collector: has counted.
        recorder: has the tags of what was recorded.
        plans: those that serve.

    Example:
        >>> lifecycle.account.summary().iterations  # doctest: +SKIP
        12
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

    def summary(self) -> Summary:
        """What has been done so far."""
        state = self._state
        notes = tuple(note for note in (*state.notes, state.adapter.note) if note)
        return self._collector.summary(
            state.plan, len(self._plans), state.replans, notes, state.waits
        )

    def evidence(self) -> Evidence:
        """Return what a verdict is based on, as things stand; to be called before the end."""
        state = self._state
        return Evidence(
            summary=self.summary(),
            baseline=state.adapter.baseline(),
            gave_up=state.gave_up,
            recorded_only=state.options.record_only,
        )

    def recording(self) -> Profile | None:
        """What has been recorded since recording began, up to this moment, as a line."""
        meta = self._state.meta({"found": "everything up to one moment"})
        return linear_profile(self._state.adapter.engine.events(), self._recorder.tags, meta)
