"""Sessions whose iterations are the calls of one function of a program, on any thread."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pgmo.locks import new_lock
from pgmo.runner.supervision import Supervision
from pgmo.serving.devices import Devices

if TYPE_CHECKING:
    from pgmo.allocator.session.threads.call_turns import CallTurns


class Called:
    """Wrapper of the function. The first call opens the sessions. Calls never wait."""

    def __init__(self, supervision: Supervision) -> None:
        self._supervision = supervision
        self._opening, self._notifying = new_lock(), new_lock()
        self._began = False
        self._turns: list[CallTurns] = []

    def __call__(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Run `function(*args, **kwargs)`, as an iteration unless another iteration runs."""
        if not self._began:
            self._begin(args)
        leaves = [leave for turns in self._turns if (leave := turns.enter()) is not None]
        complete = False
        try:
            result = function(*args, **kwargs)
            complete = True
        finally:
            for leave in leaves:
                with self._supervision.harmless():
                    leave(complete)
            if leaves and self._notifying.acquire(blocking=False):
                try:
                    self._supervision.notify()
                finally:
                    self._notifying.release()
        return result

    def _begin(self, args: tuple[Any, ...]) -> None:
        """Open the sessions; do not wait while another call opens them, which may take long."""
        if not self._opening.acquire(blocking=False):
            return
        try:
            if self._began:
                return
            # Use the devices of a method's object. Without an object or its parameters, use the
            # current CUDA device or the CPU.
            found = Devices().of(args[0] if args else None)
            supervision = self._supervision
            supervision.begin(list(found))
            with supervision.harmless():
                self._turns = [session.count_calls() for session in supervision.sessions]
            self._began = True
        finally:
            self._opening.release()
