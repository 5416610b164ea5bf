"""Counter of a script's iterations, which stops the script at a limit."""

import ctypes
import threading
import time

from pgmo.runner.supervision import Supervision

_MOST_LONGER = 2000
"""Maximum number of iterations after the required ones. Growth shows in far fewer iterations."""

_PATIENCE = 2.0
"""Multiple of `longer` after which the script is interrupted, even within an iteration."""


class Stopped(BaseException):
    """Exception that ends a script after enough iterations; no `except Exception` catches it."""


class IterationCounter:
    """Counter of iterations that listens to a `Watcher` and forwards all calls.

    Args:
        supervision: receives the forwarded calls; None for no receiver.
        most: iterations after which the script is stopped; None for no limit.
        longer: seconds for which the script continues after `most` iterations.
    """

    def __init__(
        self, supervision: Supervision | None, most: int | None, longer: float = 0.0
    ) -> None:
        self._supervision = supervision
        self._most = most
        self._longer = longer
        self._deadline: float | None = None
        self._interruption: _Interruption | None = None
        self.ended = 0
        self.notes: list[str] = []

    def begin(self, devices: list[str]) -> None:
        """Handle the start of training on these devices."""
        if not any(one.startswith("cuda") for one in devices):
            where = ", ".join(devices) or "an unknown device"
            self.notes.append(f"the trained parameters are on {where}, not on the card")
        if self._supervision is not None:
            self._supervision.begin(devices)

    def end_iteration(self) -> None:
        """Count a finished iteration; raise `Stopped` after the last one."""
        self.ended += 1
        if self._supervision is not None:
            self._supervision.end_iteration()
        if self._most is not None and self.ended >= self._most and self._is_over(self._most):
            raise Stopped(f"{self.ended} iterations were enough")

    def _is_over(self, most: int) -> bool:
        if not self._longer or self.ended >= most + _MOST_LONGER:
            return True
        if self._deadline is None:
            self._deadline = time.monotonic() + self._longer
            self._interruption = _Interruption(_PATIENCE * self._longer)
        return time.monotonic() >= self._deadline

    def close(self) -> None:
        """Cancel a pending interruption of the script."""
        if self._interruption is not None:
            self._interruption.cancel()

    def pause(self) -> None:
        """Handle the start of an evaluation."""
        if self._supervision is not None:
            self._supervision.pause()

    def resume(self) -> None:
        """Handle the end of an evaluation."""
        if self._supervision is not None:
            self._supervision.resume()


class _Interruption:
    """Timer that raises `Stopped` in the thread that made it."""

    def __init__(self, seconds: float) -> None:
        self._thread = ctypes.c_ulong(threading.get_ident())
        self._lock = threading.Lock()
        self._cancelled = False
        timer = threading.Timer(seconds, self._stop)
        timer.daemon = True
        timer.start()

    def cancel(self) -> None:
        """Cancel the exception, even if it is due but has not been raised."""
        with self._lock:
            self._cancelled = True
            ctypes.pythonapi.PyThreadState_SetAsyncExc(self._thread, None)

    def _stop(self) -> None:
        with self._lock:
            if not self._cancelled:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(self._thread, ctypes.py_object(Stopped))
