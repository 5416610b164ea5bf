"""Session for the calls on one device. All wrapped objects on this device share the session.

    no session  --first call-->  open  --error-->  refused permanently
         ^                         |
         +---- all unwrapped, or the program opens its own session

In the session, each structure of calls has its own plan.
"""

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pgmo.allocator.optimize import optimize
from pgmo.allocator.session.session import Session, active_session
from pgmo.allocator.session.statistics import Phase
from pgmo.locks import new_lock
from pgmo.user_warnings import warn_user

if TYPE_CHECKING:
    from pgmo.allocator.session.threads.call_turns import CallTurns

Leave = Callable[[bool], None]


class Service:
    """Session that the first call opens. Other calls do not wait for the opening.

    After an error, pgmo warns once, and all further calls on the device run without pgmo.

    Attributes:
        device: the device, as "cpu" or "cuda:0".
        session: the latest session; None if no session has been opened yet.
        options: options of the session.
        users: the `_Calls` of each wrapped object that uses this service.
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
        """Return whether the session is open."""
        return self.session is not None and self.session.phase is not Phase.CLOSED

    def enter(self) -> Leave | None:
        """Begin a call. Return the function that ends the call; None if the call is not served."""
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
        """Close the session. A later call opens another session, except after an error."""
        session, self._turns = self.session, None
        if session is not None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about a session without iterations
                session.close()

    def _leave(self, leave: Leave, complete: bool) -> None:
        try:
            leave(complete)
        except Exception as error:
            self._refuse(error)

    def _open(self) -> bool:
        # Another call may be opening the session, which takes long if an adapter is compiled.
        if not self._opening.acquire(blocking=False):
            return False
        try:
            if self.running:
                return True
            # If the program has a session of its own, the call is a part of its iterations.
            if active_session(self.device) is not None:
                return False
            session = optimize(**{**self.options, "device": self.device})
            session.__enter__()
            session.on_user_session = self.close
            self.session, self._turns = session, session.count_calls()
        except Exception as error:
            self._refuse(error)
            return False
        finally:
            self._opening.release()
        return True

    def _refuse(self, error: Exception) -> None:
        """Stop serving permanently, and warn the user."""
        self._refused = True
        self.close()
        warn_user(
            f"pgmo: {type(error).__name__}: {error}; calls on {self.device} continue without a "
            "session"
        )
