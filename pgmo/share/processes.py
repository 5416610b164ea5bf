"""Detection of the end of members' processes, by `pidfd` descriptors."""

import errno
import os
import select
import selectors
from collections.abc import Callable

from pgmo.errors import ShareError


class ProcessWatch:
    """Watch that calls `ended` with a member's number when the member's process ends."""

    def __init__(self, selector: selectors.BaseSelector, ended: Callable[[int], object]) -> None:
        self._selector, self._ended = selector, ended
        self._pidfds: dict[int, int] = {}

    def __bool__(self) -> bool:
        return bool(self._pidfds)

    def __contains__(self, number: int) -> bool:
        return number in self._pidfds

    def add(self, number: int, pid: int) -> None:
        """Watch a process if the system allows it; raise `ShareError` if no descriptor is left."""
        try:
            pidfd = os.pidfd_open(pid)
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                raise ShareError("the broker has no file descriptor left") from error
            return
        self._pidfds[number] = pidfd
        self._selector.register(
            pidfd, selectors.EVENT_READ, lambda _file: self._readable(number, pidfd)
        )

    def remove(self, number: int) -> None:
        """Stop watching a member's process."""
        pidfd = self._pidfds.pop(number)
        self._selector.unregister(pidfd)
        os.close(pidfd)

    def has_ended(self, number: int) -> bool:
        """Return whether a watched process has ended, even if the callback has not run yet."""
        if number not in self._pidfds:
            return False
        poll = select.poll()
        poll.register(self._pidfds[number], select.POLLIN)
        return bool(poll.poll(0))

    def close(self) -> None:
        """Stop watching all processes."""
        for number in list(self._pidfds):
            self.remove(number)

    def _readable(self, number: int, pidfd: int) -> None:
        # A goodbye at the same time may have closed the descriptor, and its number may be reused.
        if self._pidfds.get(number) == pidfd:
            self._ended(number)
