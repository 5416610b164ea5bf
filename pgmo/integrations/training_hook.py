"""Common part of the callbacks of all frameworks: a session inside the framework's loop."""

import os
import sys
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from pgmo.allocator.metrics import session_metrics
from pgmo.allocator.optimize import optimize
from pgmo.errors import PgmoError
from pgmo.runner.out_of_memory import is_out_of_memory, print_saved_files, save_out_of_memory
from pgmo.user_warnings import warn_user
from pgmo.world import world

if TYPE_CHECKING:
    from pgmo.allocator.session.session import Session


class TrainingHook:
    """Session of one training; the methods are called by a framework's callback.

    Args:
        plan: a saved plan to start with, or its path.
        save: directory for the profile, the plan, and the files of an out-of-memory error. By
            default, only the files of an error are written, to the current directory.
        device: device to serve; None for the framework's choice.
        model_name: name of the model, for file names.
        options: further options of `pgmo.optimize`.

    Attributes:
        session: the latest session; None before training begins.
    """

    def __init__(
        self,
        *,
        plan: Any = None,
        save: str | os.PathLike[str] | None = None,
        device: object = None,
        model_name: str = "",
        **options: Any,
    ) -> None:
        self._options = {
            "plan": plan,
            "save": save,
            "device": device,
            "model_name": model_name,
            **options,
        }
        optimize(**self._options)  # checks the options, and opens nothing
        self._pause = ExitStack()
        self._paused = self._refused = self._has_no_metrics = False
        self._hook: Any = None
        self.session: Session | None = None

    @property
    def plan_path(self) -> str | None:
        """Path of the saved plan, else of the given plan; None if there is neither.

        With several ranks, the path of saved plans is their directory, in which each rank finds its
        own plan.
        """
        files = self.session.saved if self.session is not None else ()
        saved = [path.absolute() for path in files if path.suffix == ".pgmoplan"]
        given = self._options["plan"]
        if saved:
            return str(saved[-1] if world() is None else saved[-1].parent)
        return os.fspath(given) if isinstance(given, str | os.PathLike) else None

    def remember(self, path: str | None) -> None:
        """Start with the plan of a checkpoint, unless a plan was given or the file is missing."""
        if path and self._options["plan"] is None and Path(path).exists():
            self._options["plan"] = path

    @property
    def running(self) -> bool:
        """Return whether a session is open."""
        return self.session is not None and self.session.phase != "closed"

    def refuse(self, reason: str) -> None:
        """Open no session from now on, and warn once with the reason."""
        if not self._refused:
            self._refused = True
            warn_user(f"pgmo is not used in this training: {reason}")

    def begin(self, device: object) -> None:
        """Open a session. If that fails, training continues without pgmo."""
        if self._refused or self.running:
            return
        options = dict(self._options)
        if options["device"] is None:
            options["device"] = str(device).replace("cpu:0", "cpu")  # accelerate's name of the CPU
        try:
            session = optimize(**options)
            session.__enter__()
        except PgmoError as error:
            self.refuse(str(error))
            return
        self.session = session
        self._hook = sys.excepthook
        sys.excepthook = self._uncaught

    def end_iteration(self) -> None:
        """End an iteration; if the session is paused, resume first."""
        if self.running and self.session is not None:
            self.resume()
            self.session.step()

    def metrics(self) -> dict[str, float]:
        """Return the session's figures for a logger; {} without an open session, or on an error.

        An error does not end the training. The first error causes a warning.
        """
        if not self.running or self.session is None:
            return {}
        try:
            return session_metrics(self.session)
        except Exception as error:
            if not self._has_no_metrics:
                self._has_no_metrics = True
                warn_user(f"pgmo's figures could not be logged: {type(error).__name__}: {error}")
            return {}

    def pause(self) -> None:
        """Pause the session for an evaluation."""
        if self.running and self.session is not None and not self._paused:
            self._paused = True
            self._pause.enter_context(self.session.pause())

    def resume(self) -> None:
        """Resume after an evaluation, if there was one."""
        self._paused = False
        self._pause.close()

    def fail(self, error: BaseException) -> None:
        """Close the session after an exception; if memory ran out, first save what held memory."""
        if self.running and self.session is not None and is_out_of_memory(error):
            print_saved_files(
                save_out_of_memory(error, [self.session], self._options["save"] or ".")
            )
        self.end()

    def end(self) -> None:
        """Close the session after training."""
        self.resume()
        if self.session is not None:
            self.session.close()
        if self._hook is not None and sys.excepthook == self._uncaught:
            sys.excepthook = self._hook
        self._hook = None

    def _uncaught(
        self, kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        """Handle uncaught exceptions, because some frameworks do not pass them to callbacks."""
        hook = self._hook or sys.__excepthook__
        self.fail(error)
        hook(kind, error, trace)
