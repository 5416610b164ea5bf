"""What can be read of a session: what it does, what it has done, and what that was worth."""

from dataclasses import replace
from html import escape
from pathlib import Path

from pgmo.allocator.session.lifecycle import Lifecycle
from pgmo.allocator.session.open_sessions import OpenSession
from pgmo.allocator.session.statistics import IterationStatistics, Phase
from pgmo.allocator.session.threads.boundary import exclusive
from pgmo.allocator.session.verdict.summary import Summary
from pgmo.display import NotebookFrame, show_report
from pgmo.errors import SessionError
from pgmo.packing.plan import Plan
from pgmo.profiler.profile import Profile


class SessionReport:
    """Phase, profile, plan, statistics, summary and report of a session; changes nothing."""

    def __init__(self) -> None:
        self._open = False
        self._opened: OpenSession | None = None  # stays when it is closed
        self._last: Summary | None = None  # once it is closed

    @property
    def _known(self) -> OpenSession:
        """Its parts, once it was opened."""
        assert self._opened is not None
        return self._opened

    @property
    def _lifecycle(self) -> Lifecycle | None:
        return self._opened.lifecycle if self._opened is not None else None

    def summary(self) -> Summary:
        """Return what has been done so far, with a verdict on it; printable.

        The verdict compares what the process took of the device with what plain PyTorch would have
        reserved for the same requests, by a model that runs along. `counted()` leaves it out.
        """
        with exclusive():  # no boundary changes the plans meanwhile
            return self._last or self._summary(with_verdict=True)

    def counted(self) -> Summary:
        """Return the summary without a verdict: what has been counted so far, at once."""
        if self._last is not None:
            return replace(self._last, verdict=None)
        return self._summary(with_verdict=False)

    def _summary(self, *, with_verdict: bool) -> Summary:
        if self._lifecycle is None:
            return Summary(iterations=0, recorded=0, replayed=0)
        return self._lifecycle.summary(with_verdict=with_verdict)

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        state = str(self.phase) if self._lifecycle else "not opened"
        return f"<pre>{escape(f'pgmo session ({state})')}\n{escape(str(self.summary()))}</pre>"

    def report(self, *, height: int = 900) -> NotebookFrame:
        """Return the report of the replayed iteration, as one page that begins with the verdict.

        Notebooks show it; `save(path)` of what is returned writes it to a file.

        Args:
            height: in a notebook, in pixels.

        Raises:
            SessionError: when nothing was recorded that could be shown.
        """
        profile, plan = self.profile, self.plan
        if profile is None and plan is not None:
            profile = plan.profile()  # it was loaded, without the names of its blocks
        if profile is None:
            raise SessionError(
                "this session has nothing to report on yet: it takes a few iterations, or a plan"
            )
        if plan is not None and plan.fingerprint != profile.fingerprint:
            plan = None
        return show_report(profile, plan, height=height, headline=str(self.summary()))

    @property
    def history(self) -> list[IterationStatistics]:
        """Statistics of each iteration so far, in order; of the last 10,000 in a long session."""
        return self._lifecycle.collector.history if self._lifecycle else []

    @property
    def history_end(self) -> IterationStatistics | None:
        """Statistics of the last iteration, without copying the others; None before the first."""
        return self._lifecycle.collector.history_end if self._lifecycle else None

    @property
    def statistics(self) -> dict[str, int]:
        """The engine's counters for this session; sizes in bytes."""
        return self._lifecycle.collector.counters() if self._lifecycle else {}

    @property
    def phase(self) -> Phase:
        """What the session does at the moment."""
        return self._lifecycle.state.phase if self._open and self._lifecycle else Phase.CLOSED

    @property
    def profile(self) -> Profile | None:
        """The latest profile; None before anything was recorded."""
        return self._lifecycle.state.profile if self._lifecycle else None

    @property
    def opening(self) -> Profile | None:
        """The profile of the program's first iteration, in which optimizer state is born.

        Made with `record_only` and with `save`, of a recording that began with that iteration.
        """
        return self._lifecycle.opening if self._lifecycle else None

    @property
    def recording(self) -> Profile | None:
        """What has been recorded up to this moment, as a line; None where nothing is recorded."""
        with exclusive():
            return self._lifecycle.recording() if self._open and self._lifecycle else None

    @property
    def device(self) -> str:
        """Whose memory: "cpu", "cuda:0"; "" before the session was opened."""
        return self._lifecycle.state.adapter.device if self._lifecycle else ""

    @property
    def plan(self) -> Plan | None:
        """The latest plan; None while there is none."""
        return self._lifecycle.state.plan if self._lifecycle else None

    @property
    def saved(self) -> tuple[Path, ...]:
        """The files that `save=` has written."""
        return self._lifecycle.state.saved if self._lifecycle else ()
