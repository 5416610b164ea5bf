"""Sessions around the iterations of an unmodified program.

The modules of sessions are imported when the first session opens, because many programs are short
or never train.
"""

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pgmo.allocator.session.threads.boundary import exclusive
from pgmo.errors import FileError, PgmoError, SessionError
from pgmo.runner.early_pages import summary_of
from pgmo.runner.keepers.watch import WhoKeeps
from pgmo.serving.devices import SERVED
from pgmo.world import world

if TYPE_CHECKING:
    from pgmo.allocator.session.session import Session
    from pgmo.allocator.session.verdict.summary import Summary


@dataclass(frozen=True)
class RunOptions:
    """Options of the sessions of a run.

    Args:
        name: name of the model, used in file names.
        plan: a saved plan to start with.
        save: directory for profiles and plans.
        device: the only device to serve; None for the devices of the optimizers' parameters.
        profile_only: whether to record and save the profile, and plan nothing.
        start: base directory of relative paths, because the program may change its directory.
        memory: "managed" for unified memory on CUDA devices; see `pgmo.managed`.
        budget: maximum device memory on CUDA devices, in bytes; None for no maximum.
        limit: maximum bytes of pages on CUDA devices; None for no maximum.
        step_on: function whose calls are the iterations; None for optimizer steps.
        tags: whether to name modules and operators of blocks; see `pgmo.optimize`.
        who_keeps: whether to search for variables that keep blocks alive.
    """

    name: str
    plan: str | None = None
    save: str | None = None
    device: str | None = None
    profile_only: bool = False
    start: Path = Path()
    memory: str = "device"
    budget: int | None = None
    limit: int | None = None
    step_on: str | None = None
    tags: bool = True
    who_keeps: bool = False

    def shown(self, path: Path) -> Path:
        """Return a path relative to the directory in which the program was started."""
        return path.relative_to(self.start) if path.is_relative_to(self.start) else path


@dataclass
class Supervision:
    """Sessions of a program, one per device, which open when training begins.

    Errors inside pgmo become notes, and the program continues without pgmo.

    Args:
        options: options of the run.
        after_iteration: called after each iteration; None for no call.

    Attributes:
        sessions: the opened sessions, one per device.
        notes: sentences about unexpected events.
        saved: files that were written.
        metrics: figures of each device as in `pgmo.metrics`, read before the sessions close.
        who_keeps: search for variables that keep blocks alive; None without one.
    """

    options: RunOptions
    after_iteration: Callable[["Supervision"], None] | None = None
    sessions: "list[Session]" = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    saved: list[Path] = field(default_factory=list)
    metrics: dict[str, dict[str, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.who_keeps = WhoKeeps() if self.options.who_keeps else None
        self._pauses = ExitStack()
        self._unified = ExitStack()
        self._process = os.getpid()
        self._broken = False
        self._given_way: set[Session] = set()
        self._unneeded = False  # whether the script has its own session on any device

    @property
    def gave_up(self) -> bool:
        """Return whether an error or the script's own session ended or replaced a session."""
        return self._broken or self._unneeded

    # --- called by the watcher ------------------------------------------------------------------

    def begin(self, devices: list[str]) -> None:
        """Open a session on each device that pgmo serves; `options.device` overrides `devices`."""
        with self.harmless():
            wanted = [self.options.device] if self.options.device else devices
            served = [one for one in wanted if one.partition(":")[0] in SERVED]
            if not served:
                where = f"the trained parameters are on {', '.join(devices) or 'an unknown device'}"
                if self.options.device:
                    where = f"--device is {self.options.device}"
                self.notes.append(
                    f"{where}, which pgmo does not serve; the program ran without pgmo"
                )
            # Warnings of pgmo must not become errors in the program's loop, even if the program's
            # filters say so.
            warnings.filterwarnings("default", message="pgmo: ")
            for device in served:
                self._open(device, alone=len(served) == 1)

    def end_iteration(self) -> None:
        """End an iteration on each device."""
        if os.getpid() != self._process:
            return
        with self.harmless():
            for session in self._served():
                session.step()
        self.notify()

    def notify(self) -> None:
        """Handle the end of an iteration: save profiles on request, call `after_iteration`."""
        if os.getpid() != self._process or self._broken:
            return
        if self._unneeded and not self._served():
            return
        with self.harmless():
            if self.options.profile_only:
                self._save_profiles()
            if self.who_keeps is not None:
                self.who_keeps.after_iteration(self._served())
            if self.after_iteration is not None:
                self.after_iteration(self)

    def pause(self) -> None:
        """Pause the sessions, because an evaluation begins."""
        with self.harmless():
            for session in self._served():
                self._pauses.enter_context(session.pause())

    def resume(self) -> None:
        """Resume the sessions, because the evaluation has ended."""
        with self.harmless():
            self._pauses.close()

    # --- at the end -----------------------------------------------------------------------------

    def close(self) -> None:
        """Close the sessions and collect the saved files."""
        if os.getpid() != self._process:
            return
        with exclusive():  # threads may still train after the program's last line
            self.resume()
            with self.harmless():
                self._read_metrics()
            with self.harmless(), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the summary mentions a missing iteration
                self._close_sessions()
            for session in self.sessions:
                self.saved += [path for path in session.saved if path not in self.saved]

    def _read_metrics(self) -> None:
        if self.sessions:
            from pgmo.allocator.metrics import session_metrics

            for session in self.sessions:
                self.metrics.setdefault(session.device, session_metrics(session))

    def _close_sessions(self) -> None:
        with ExitStack() as steps:  # each step runs even if another fails
            steps.callback(self._unified.close)
            for session in self.sessions:
                steps.callback(session.close)

    def summary(self, session: "Session") -> "Summary":
        """Return a session's summary with the verdict on the whole process, and with keepers."""
        summary = summary_of(session)
        if self.who_keeps is None:
            return summary
        return self.who_keeps.in_summary(summary, session.device)

    def to_fields(self) -> dict[str, Any]:
        """Return all counters as plain values for JSON. Sizes are in bytes."""
        return {
            "sessions": [
                {
                    "device": session.device,
                    "summary": asdict(self.summary(session)),
                    "metrics": self.metrics.get(session.device, {}),
                    "iterations": [
                        {
                            "phase": str(one.phase),
                            "requests": one.requests,
                            "hits": one.hits,
                            "bytes_requested": one.bytes_requested,
                            "bytes_hit": one.bytes_hit,
                            "misses": {why: count for why, count in one.misses.items() if count},
                        }
                        for one in session.history
                    ],
                }
                for session in self.sessions
            ],
            "notes": self.notes,
            "saved": [str(self.options.shown(path)) for path in self.saved],
        }

    # --- parts ----------------------------------------------------------------------------------

    def _open(self, device: str, *, alone: bool) -> None:
        from pgmo.allocator.optimize import optimize
        from pgmo.allocator.session.open_sessions import any_open

        options = self.options
        name = options.name if alone else f"{options.name}-{device.replace(':', '')}"
        session = optimize(
            device=device,
            plan=None if options.plan is None else str(options.start / options.plan),
            save=None if options.profile_only or not options.save else options.start / options.save,
            model_name=name,
            record_only=options.profile_only,
            tags=options.tags,
            budget=None if device == "cpu" else options.budget,
            limit=None if device == "cpu" else options.limit,
        )
        where = "" if alone else f" on {device}"
        with ExitStack() as around:
            if options.memory == "managed" and device != "cpu":
                from pgmo.allocator.managed.context import managed

                around.enter_context(managed(device=device))
            try:
                session.__enter__()
            except SessionError:
                if not any_open(device):
                    raise
                self._leave_to_script(where)  # a callback may open its session at the first batch
                return
            self._unified.push(around.pop_all())
        session.on_user_session = partial(self._on_user_session, session, where)
        self.sessions.append(session)

    def _served(self) -> "list[Session]":
        """Return the sessions on devices where the script has opened no session of its own."""
        return [one for one in self.sessions if one not in self._given_way]

    def _on_user_session(self, session: "Session", where: str) -> None:
        """Close a session, because the script opens one on its device. Other sessions continue."""
        with self.harmless(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._given_way.add(session)
            self._leave_to_script(where)
            session.close()

    def _leave_to_script(self, where: str) -> None:
        self._unneeded = True
        self.notes.append(f"the script opened its own session{where}, which serves it")

    def _save_profiles(self) -> None:
        for number, session in enumerate(self.sessions):
            name = self.options.name if not number else f"{self.options.name}-{number + 1}"
            if session.profile is None:
                continue
            if world() is not None:
                name = f"{name}-{session.profile.fingerprint[:8]}"  # equal profiles share a file
            path = self.options.start / (self.options.save or ".") / f"{name}.pgmoprof"
            if path not in self.saved:
                try:
                    path.parent.mkdir(parents=True, exist_ok=True)
                except OSError as error:
                    raise FileError(f"{path.parent} cannot be created: {error.strerror}") from error
                session.profile.save(path)
                self.saved.append(path)

    @contextmanager
    def harmless(self) -> Iterator[None]:
        """Turn an error in the block into a note, and end the supervision."""
        try:
            yield
        except Exception as error:
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        if self._broken:
            return
        self._broken = True
        kind = "" if isinstance(error, PgmoError) else f"{type(error).__name__}: "
        self.notes.append(f"{kind}{error}; the program continued without a session")
        try:
            with ExitStack() as steps:
                steps.callback(self._close_sessions)
                steps.callback(self._pauses.close)
        except Exception as error:  # the program must continue
            self.notes.append(f"a session could not be closed: {error}")
        self.end_iteration = self.pause = lambda: None  # type: ignore[method-assign]
