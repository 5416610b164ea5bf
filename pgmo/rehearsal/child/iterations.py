"""Counts the iterations of a script and stops it after a limit."""

from pgmo.runner.supervision import Supervision


class Stopped(BaseException):
    """Exception that ends a script after enough iterations; no `except Exception` catches it."""


class Counted:
    """Listener of a watcher that counts iterations and forwards all calls.

    Args:
        supervision: receives the forwarded calls; None for no receiver.
        most: iterations after which the script is stopped; None for no limit.

    Attributes:
        ended: number of finished iterations.
        notes: sentences for the result.
    """

    def __init__(self, supervision: Supervision | None, most: int | None) -> None:
        self._supervision = supervision
        self._most = most
        self.ended = 0
        self.notes: list[str] = []

    def begin(self, devices: list[str]) -> None:
        """Handle the start of training on these devices."""
        if not any(one.startswith("cuda") for one in devices):
            where = ", ".join(devices) or "no device"
            self.notes.append(f"what is trained is on {where}, not on the card")
        if self._supervision is not None:
            self._supervision.begin(devices)

    def end_iteration(self) -> None:
        """Count a finished iteration.

        Raises:
            Stopped: if the limit is reached.
        """
        self.ended += 1
        if self._supervision is not None:
            self._supervision.end_iteration()
        if self._most is not None and self.ended >= self._most:
            raise Stopped(f"{self.ended} iterations were enough")

    def pause(self) -> None:
        """Handle the start of an evaluation."""
        if self._supervision is not None:
            self._supervision.pause()

    def resume(self) -> None:
        """Handle the end of an evaluation."""
        if self._supervision is not None:
            self._supervision.resume()
