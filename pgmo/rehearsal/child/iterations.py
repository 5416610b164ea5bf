"""Counts the iterations of a script, and stops it after some."""

from pgmo.runner.supervision import Supervision


class Stopped(BaseException):
    """Ends a script that has run for long enough; handlers of `Exception` let it pass."""


class Counted:
    """Listens to a watcher, and passes on what it hears.

    Args:
        supervision: is told as well; None where nobody is.
        most: iterations after which the script is stopped; None for no end.

    Attributes:
        ended: iterations that have ended.
        notes: what there is to say at the end.

    Example:
        >>> counted = Counted(None, None)
        >>> counted.end_iteration()
        >>> counted.ended
        1
    """

    def __init__(self, supervision: Supervision | None, most: int | None) -> None:
        self._supervision = supervision
        self._most = most
        self.ended = 0
        self.notes: list[str] = []

    def begin(self, devices: list[str]) -> None:
        """Training begins on these devices."""
        if not any(one.startswith("cuda") for one in devices):
            where = ", ".join(devices) or "no device"
            self.notes.append(f"what is trained is on {where}, not on the card")
        if self._supervision is not None:
            self._supervision.begin(devices)

    def end_iteration(self) -> None:
        """An iteration has ended.

        Raises:
            Stopped: when it was the last one that is wanted.
        """
        self.ended += 1
        if self._supervision is not None:
            self._supervision.end_iteration()
        if self._most is not None and self.ended >= self._most:
            raise Stopped(f"{self.ended} iterations were enough")

    def pause(self) -> None:
        """An evaluation begins."""
        if self._supervision is not None:
            self._supervision.pause()

    def resume(self) -> None:
        """The evaluation has ended."""
        if self._supervision is not None:
            self._supervision.resume()
