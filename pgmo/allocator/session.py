"""The session: watches a loop's iterations, plans, and serves the later ones from one arena.

    record ──two iterations agree, and one more──▶ plan ──▶ replay
      ▲                                                        │
      └────────── requests not the planned ones ───────────────┘
    verify (a saved plan) ──matches──▶ replay      ──does not──▶ record

Whatever the program does, requests that are not in the plan go to the framework's own allocator, so
a wrong plan costs memory and never correctness.
"""

import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import ParamSpec, Self, TypeVar

from pgmo.allocator.framework import Framework
from pgmo.allocator.lifecycle import Lifecycle
from pgmo.allocator.managed.unified import UnifiedFramework
from pgmo.allocator.optimized import Optimized
from pgmo.allocator.options import Options
from pgmo.allocator.statistics import IterationStatistics, Phase, Summary
from pgmo.errors import AdapterError, SessionError
from pgmo.packing.plan import Plan
from pgmo.profiler.profile import Profile

P = ParamSpec("P")
R = TypeVar("R")

_active: dict[str, "Session"] = {}
"""The open session of each framework allocator: there is one engine under each."""

_opening = threading.Lock()
"""Held while a session opens or closes."""


def active_session(find: Callable[[], Framework]) -> "Session | None":
    """The open session of a framework's allocator, if there is one.

    Example:
        >>> active_session(torch_cpu)  # doctest: +SKIP
    """
    if not _active:
        return None
    framework = find()
    return _active.get(f"{framework.name}/{framework.device}")


class Session:
    """A running optimization; made by `pgmo.optimize`.

    Attributes:
        history: one `IterationStatistics` per iteration so far.

    Example:
        >>> with pgmo.optimize() as session:  # doctest: +SKIP
        ...     for batch in loader:
        ...         with session.iteration():
        ...             train_step(batch)
        >>> print(session.summary())  # doctest: +SKIP
    """

    def __init__(self, options: Options, framework: Callable[[], Framework]) -> None:
        self._options = options
        self._find_framework = framework
        self._lifecycle: Lifecycle | None = None
        self._summary: Summary | None = None
        self._open = False
        self._inside_iteration = False
        self._paused = 0
        self._unified: UnifiedFramework | None = None
        self._key = ""
        # For whoever opens sessions in other people's programs: called, to close this one, when the
        # program opens one of its own.
        self.give_way: Callable[[], object] | None = None

    # --- for the loop ---------------------------------------------------------------------------

    @contextmanager
    def iteration(self) -> Iterator[None]:
        """Marks one iteration. An exception ends it early; the session goes on unharmed.

        Raises:
            SessionError: when the session is not open or paused, or inside another iteration.
        """
        self._require_open("iteration()")
        self._require_running("begin")
        if self._inside_iteration:
            raise SessionError(
                "session.iteration() was entered inside another iteration; end the first one before"
            )
        self._inside_iteration = True
        complete = False
        try:
            yield
            complete = True
        finally:
            self._inside_iteration = False
            if self._open:
                self._end_iteration(complete)

    def step(self) -> None:
        """Ends an iteration: call it once at the end of each, instead of `iteration()`.

        Raises:
            SessionError: when the session is not open, paused, or inside `iteration()`.
        """
        self._require_open("step()")
        if self._inside_iteration:
            raise SessionError(
                "session.step() was called inside session.iteration(), which ends the iteration "
                "by itself; use one of the two"
            )
        self._end_iteration(complete=True)

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Delegates everything inside to the framework: evaluation, logging, checkpoints.

        Raises:
            SessionError: when the session is not open.
        """
        self._require_open("pause()")
        engine = self._running.course.framework.engine
        self._paused += 1
        engine.pause()
        try:
            yield
        finally:
            self._paused -= 1
            if self._paused == 0:
                engine.resume()

    def summary(self) -> Summary:
        """What has been done so far; printable."""
        if self._summary is not None:
            return self._summary
        if self._lifecycle is None:
            return Summary(iterations=0, recorded=0, replayed=0)
        return self._with_memory(self._lifecycle.summary())

    @property
    def history(self) -> list[IterationStatistics]:
        """Statistics of each iteration so far, in order; of the last 10,000 in a long session."""
        return list(self._lifecycle.tally.history) if self._lifecycle else []

    @property
    def statistics(self) -> dict[str, int]:
        """The engine's counters for this session; sizes in bytes."""
        return self._lifecycle.tally.counters() if self._lifecycle else {}

    @property
    def phase(self) -> Phase:
        """What the session does at the moment."""
        return self._lifecycle.course.phase if self._open and self._lifecycle else Phase.CLOSED

    @property
    def profile(self) -> Profile | None:
        """The latest profile; None before anything was recorded."""
        return self._lifecycle.course.profile if self._lifecycle else None

    @property
    def opening(self) -> Profile | None:
        """The profile of the program's first iteration, in which optimizer state is born.

        Made with `record_only` and with `save`, of a recording that began with that iteration.
        """
        return self._lifecycle.opening if self._lifecycle else None

    @property
    def recording(self) -> Profile | None:
        """What has been recorded up to this moment, as a line; None where nothing is recorded."""
        return self._lifecycle.recording() if self._open and self._lifecycle else None

    @property
    def device(self) -> str:
        """Whose memory: "cpu", "cuda:0"; "" before the session was opened."""
        return self._lifecycle.course.framework.device if self._lifecycle else ""

    @property
    def plan(self) -> Plan | None:
        """The latest plan; None while there is none."""
        return self._lifecycle.course.plan if self._lifecycle else None

    @property
    def saved(self) -> tuple[Path, ...]:
        """The files that `save=` has written."""
        return self._lifecycle.course.saved if self._lifecycle else ()

    # --- opening and closing --------------------------------------------------------------------

    def __enter__(self) -> Self:
        if self._lifecycle is not None:
            raise SessionError(
                "this session was used before; call pgmo.optimize() again for another one"
            )
        framework = self._find_framework()
        if isinstance(framework, UnifiedFramework):
            self._unified = framework
        self._key = f"{framework.name}/{framework.device}"
        other = _active.get(self._key)
        if other is not None and other.give_way is not None:
            other.give_way()
        with _opening:
            if self._key in _active:
                raise SessionError(
                    f"a session for {framework.name} on {framework.device} is open already: "
                    "sessions cannot be nested, and there is one per process; close the other one "
                    "first"
                )
            lifecycle = Lifecycle(framework, self._options)
            framework.install()
            try:
                lifecycle.start()
            except BaseException:
                lifecycle.stop()
                framework.uninstall()
                raise
            _active[self._key] = self
        self._lifecycle = lifecycle
        self._open = True
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Returns to the framework's own allocator; tensors stay valid. Twice is fine."""
        if not self._open:
            return
        self._open = False
        lifecycle = self._running
        self._summary = self._with_memory(lifecycle.summary())
        with _opening:
            lifecycle.stop()
            _active.pop(self._key, None)
            try:
                lifecycle.course.framework.uninstall()
            except AdapterError as error:
                # Harmless, for the engine delegates everything now, and perhaps an exception of the
                # program's is on its way out, which matters more.
                warnings.warn(f"pgmo stays beneath the allocator: {error}", stacklevel=3)
        if not lifecycle.tally.history:
            warnings.warn(
                "a pgmo session ended without a single iteration, so it has done nothing: call "
                "session.step() at the end of each iteration, or wrap each in session.iteration()",
                stacklevel=3,
            )

    # --- as a decorator -------------------------------------------------------------------------

    def __call__(self, function: Callable[P, R]) -> Optimized[P, R, Self]:
        """Makes every call of `function` an iteration; the session opens at the first call."""
        return Optimized(self, function)

    # --- parts ----------------------------------------------------------------------------------

    def _with_memory(self, summary: Summary) -> Summary:
        if self._unified is None:
            return summary
        return replace(
            summary, managed=self._unified.peak(), card_room=self._unified.managed.card.free
        )

    @property
    def _running(self) -> Lifecycle:
        if self._lifecycle is None:
            raise SessionError("the session has not been opened: use `with pgmo.optimize() as s:`")
        return self._lifecycle

    def _require_open(self, call: str) -> None:
        if self._open:
            return
        state = "has been closed" if self._lifecycle else "has not been opened"
        raise SessionError(
            f"session.{call} was called, but the session {state}; call it inside "
            "`with pgmo.optimize() as session:`"
        )

    def _require_running(self, what: str) -> None:
        if self._paused:
            raise SessionError(
                f"an iteration cannot {what} inside session.pause(); leave the pause before"
            )

    def _end_iteration(self, complete: bool) -> None:
        self._require_running("end")
        self._running.end_iteration(complete)
        if self._unified is not None:
            self._after_unified(self._unified)

    def _after_unified(self, framework: UnifiedFramework) -> None:
        """Prepares the next iteration's memory, where it is unified."""
        course = self._running.course
        plan = course.plan if course.phase is Phase.REPLAY else None
        if plan is not None and (text := framework.after_replay(plan)):
            course.warn(text)
        if framework.hints.note and framework.hints.note not in course.notes:
            course.notes.append(framework.hints.note)
