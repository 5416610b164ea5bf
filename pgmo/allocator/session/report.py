"""Read-only attributes of a session: phase, statistics, plans and summary."""

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
    """Read-only part of a session: phase, profile, plan, statistics, summary and report."""

    def __init__(self) -> None:
        self._open = False
        self._opened: OpenSession | None = None  # kept after the session is closed
        self._last: Summary | None = None  # set when the session is closed

    @property
    def _known(self) -> OpenSession:
        """Parts of the session, which must have been opened."""
        assert self._opened is not None
        return self._opened

    @property
    def _lifecycle(self) -> Lifecycle | None:
        return self._opened.lifecycle if self._opened is not None else None

    def summary(self) -> Summary:
        """Return the session's totals so far, with a verdict. `print` shows them as a table.

        On CUDA devices, the verdict compares the device memory that the process took with the
        memory that plain PyTorch would have reserved for the same requests, by a model of PyTorch's
        allocator. `counted()` omits the verdict.
        """
        with exclusive():  # a boundary must not change the plans meanwhile
            return self._last or self._summary(with_verdict=True)

    def counted(self) -> Summary:
        """Return the summary without a verdict, without waiting for planning in another thread."""
        if self._last is not None:
            return replace(self._last, verdict=None)
        return self._summary(with_verdict=False)

    def _summary(self, *, with_verdict: bool) -> Summary:
        if self._lifecycle is None:
            return Summary(iterations=0, recorded=0, replayed=0)
        return self._lifecycle.summary(with_verdict=with_verdict)

    def _repr_html_(self) -> str:
        state = str(self.phase) if self._lifecycle else "not opened"
        return f"<pre>{escape(f'pgmo session ({state})')}\n{escape(str(self.summary()))}</pre>"

    def report(self, *, height: int = 900) -> NotebookFrame:
        """Return a report page on the latest profile or plan. The page begins with the summary.

        Args:
            height: height in a notebook, in pixels.

        Returns:
            A frame that notebooks show; its `save(path)` writes the page to a file.

        Raises:
            SessionError: if there is neither a profile nor a plan yet.
        """
        profile, plan = self.profile, self.plan
        if profile is None and plan is not None:
            profile = plan.profile()  # without names of blocks
        if profile is None:
            raise SessionError(
                "this session has nothing to report on yet: it takes a few iterations, or a plan"
            )
        if plan is not None and plan.fingerprint != profile.fingerprint:
            plan = None
        return show_report(profile, plan, height=height, headline=str(self.summary()))

    @property
    def history(self) -> list[IterationStatistics]:
        """Statistics of each iteration, in order; at most the latest 10,000."""
        return self._lifecycle.collector.history if self._lifecycle else []

    @property
    def history_end(self) -> IterationStatistics | None:
        """Statistics of the last iteration; None before the first. Faster than `history[-1]`."""
        return self._lifecycle.collector.history_end if self._lifecycle else None

    @property
    def statistics(self) -> dict[str, int]:
        """Counters of the engine for this session; sizes in bytes."""
        return self._lifecycle.collector.counters() if self._lifecycle else {}

    @property
    def phase(self) -> Phase:
        """Current phase of the session; `CLOSED` while the session is not open."""
        return self._lifecycle.state.phase if self._open and self._lifecycle else Phase.CLOSED

    @property
    def profile(self) -> Profile | None:
        """Latest profile, recorded or from a file; None while there is none."""
        return self._lifecycle.state.profile if self._lifecycle else None

    @property
    def opening(self) -> Profile | None:
        """Profile of the program's first iteration, which allocates optimizer state.

        None if the session has neither `record_only` nor `save`, or did not record that iteration.
        """
        return self._lifecycle.state.opening if self._lifecycle else None

    @property
    def recording(self) -> Profile | None:
        """Current recording as one profile that does not repeat; None if nothing is recorded."""
        with exclusive():
            return self._lifecycle.recording() if self._open and self._lifecycle else None

    @property
    def device(self) -> str:
        """Device of the session, such as "cpu" or "cuda:0"; "" before the session was opened."""
        return self._lifecycle.state.adapter.device if self._lifecycle else ""

    @property
    def framework(self) -> str:
        """Framework that the session serves, such as "torch"; "" before the session was opened."""
        return self._lifecycle.state.adapter.name if self._lifecycle else ""

    @property
    def plan(self) -> Plan | None:
        """Latest plan; None while there is none."""
        return self._lifecycle.state.plan if self._lifecycle else None

    @property
    def peak_live(self) -> int:
        """Peak of the live bytes since the session began."""
        return self._lifecycle.collector.peak_live if self._lifecycle else 0

    @property
    def saved(self) -> tuple[Path, ...]:
        """Files that `save=` has written and that still exist."""
        return self._lifecycle.state.saved if self._lifecycle else ()
