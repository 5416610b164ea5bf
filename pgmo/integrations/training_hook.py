"""What the callbacks of all frameworks share: a session that lives inside somebody else's loop."""

import os
import sys
from contextlib import ExitStack
from html import escape
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from pgmo.allocator.optimize import optimize
from pgmo.allocator.session.options import Options
from pgmo.errors import OptionError, PgmoError
from pgmo.removed import instead_of
from pgmo.runner.out_of_memory import is_out_of_memory, save_out_of_memory, tell
from pgmo.user_warnings import warn_user
from pgmo.world import world

if TYPE_CHECKING:
    from pgmo.allocator.session.session import Session


class TrainingHook:
    """Opens a session when training begins, and follows the framework's hooks.

    Args:
        plan: a saved plan to begin with, or its path.
        save: directory for the profile and the plan, and for what is kept when memory runs out (by
            default the current one, in that case only).
        device: whose memory; None for the framework's choice.
        model_name: used in file names.
        options: further options of `pgmo.optimize`.

    Attributes:
        session: the latest session; None before training has begun.
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
        unknown = options.keys() - Options.__dataclass_fields__.keys()
        if unknown:
            first = min(unknown)
            raise OptionError(
                f"there is no option {first!r}{instead_of(first)}; see pgmo.optimize()"
            )
        Options(**self._options)
        self._pause = ExitStack()
        self._paused = self._refused = False
        self._hook: Any = None
        self.session: Session | None = None

    @property
    def plan_path(self) -> str | None:
        """Where the plan lies: where it was saved, or the one that was given.

        Of several ranks a checkpoint names the directory, in which each finds its own.
        """
        saved = (
            [path for path in self.session.saved if path.suffix == ".pgmoplan"]
            if (self.session)
            else []
        )
        given = self._options["plan"]
        if saved:
            path = saved[-1].absolute()
            return str(path if world() is None else path.parent)
        return os.fspath(given) if isinstance(given, str | os.PathLike) else None

    def html(self, name: str) -> str:
        """What notebooks show of a callback."""
        if self.session is not None:
            return self.session._repr_html_()
        state = "it does nothing here" if self._refused else "training has not begun"
        return f"<div><b>{escape(name)}</b>: {state}</div>"

    def remember(self, path: str | None) -> None:
        """A checkpoint names a plan: begins with it, unless one was given or it is gone."""
        if path and self._options["plan"] is None and Path(path).exists():
            self._options["plan"] = path

    @property
    def running(self) -> bool:
        """Whether a session is open."""
        return self.session is not None and self.session.phase != "closed"

    def refuse(self, reason: str) -> None:
        """Does nothing from now on, and says so once."""
        if not self._refused:
            self._refused = True
            warn_user(f"pgmo does nothing here: {reason}")

    def begin(self, device: object) -> None:
        """Opens a session. Where that cannot be done, training goes on without.

        Args:
            device: the framework's.
        """
        if self._refused or self.running:
            return
        options = dict(self._options)
        if options["device"] is None:
            options["device"] = str(device).replace("cpu:0", "cpu")  # as accelerate calls it
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
        """An iteration has ended."""
        if self.running and self.session is not None:
            self.resume()
            self.session.step()

    def pause(self) -> None:
        """An evaluation begins."""
        if self.running and self.session is not None and not self._paused:
            self._paused = True
            self._pause.enter_context(self.session.pause())

    def resume(self) -> None:
        """The evaluation has ended, if there was one."""
        self._paused = False
        self._pause.close()

    def fail(self, error: BaseException) -> None:
        """Training ends with an exception: keeps what is known if memory ran out, and closes."""
        if self.running and self.session is not None and is_out_of_memory(error):
            tell(save_out_of_memory(error, [self.session], self._options["save"] or "."))
        self.end()

    def end(self) -> None:
        """Training has ended."""
        self.resume()
        if self.session is not None:
            self.session.close()
        if self._hook is not None and sys.excepthook == self._uncaught:
            sys.excepthook = self._hook
        self._hook = None

    def _uncaught(
        self, kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        """For frameworks that do not tell their callbacks of exceptions."""
        hook = self._hook or sys.__excepthook__
        self.fail(error)
        hook(kind, error, trace)
