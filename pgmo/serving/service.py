"""The session around calls on one device, whichever of the wrapped objects are called there.

    no session  --first call-->  open  --error-->  refused, for good
         ^                         |
         +---- all unwrapped, or the program opens a session of its own

There is one session under each allocator, so wrapped objects on the same device share one. Each
structure of calls has a plan of its own in it.
"""

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pgmo.allocator.adapters.find import adapter_of
from pgmo.allocator.optimize import optimize
from pgmo.allocator.session.session import Session, active_session
from pgmo.allocator.session.statistics import Phase
from pgmo.locks import new_lock
from pgmo.user_warnings import warn_user

if TYPE_CHECKING:
    from pgmo.allocator.session.threads.call_turns import CallTurns

Leave = Callable[[bool], None]


class Service:
    """A session that opens with the first call, and that no call ever waits for.

    What goes wrong in here is warned of once, and calls go on as without pgmo.

    Args:
        device: whose memory: "cpu", "cuda:0".
        options: of the session, by name; see `pgmo.optimize`.

    Attributes:
        session: the latest; None before the first call.
        options: those that the session has been, or will be, opened with.
        users: what calls it; nobody here looks at them.
    """

    def __init__(self, device: str, options: dict[str, Any]) -> None:
        self.device = device
        self.options = options
        self.session: Session | None = None
        self.users: set[object] = set()
        self._turns: CallTurns | None = None
        self._opening = new_lock()
        self._refused = False

    @property
    def running(self) -> bool:
        """Whether its session is open."""
        return self.session is not None and self.session.phase is not Phase.CLOSED

    def enter(self) -> Leave | None:
        """A call begins; returns what ends it, None where nobody needs to know."""
        if self._refused:
            return None
        if not self.running and not self._open():
            return None
        turns = self._turns
        leave = turns.enter() if turns is not None else None
        if leave is None:
            return None
        return lambda complete: self._leave(leave, complete)

    def close(self) -> None:
        """Returns to the framework's own allocator; a later call opens another session."""
        session, self._turns = self.session, None
        if session is not None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that there was no iteration: nobody has called
                session.close()

    def _leave(self, leave: Leave, complete: bool) -> None:
        try:
            leave(complete)
        except Exception as error:
            self._refuse(error)

    def _open(self) -> bool:
        if not self._opening.acquire(blocking=False):
            return False  # another call is about it, and an adapter may have to be compiled
        try:
            if self.running:
                return True
            if active_session(adapter_of(self.device)) is not None:
                return False  # the program's own: the call is a part of its iterations
            session = optimize(**{**self.options, "device": self.device})
            session.__enter__()
            session.give_way = self.close
            self.session, self._turns = session, session.count_calls()
        except Exception as error:
            self._refuse(error)
            return False
        finally:
            self._opening.release()
        return True

    def _refuse(self, error: Exception) -> None:
        """Does nothing from now on, and says so."""
        self._refused = True
        self.close()
        warn_user(
            f"pgmo: {type(error).__name__}: {error}; calls on {self.device} go on as without pgmo"
        )
