"""One thread at a time: what sessions do between iterations, and when they open and close.

    thread A   train  step( learn, plan, install )  train
    thread B   train       step( waits ............ its own )  train

The engine serves all threads at once. What changes plans and arenas must see none of that change
beneath it, so there is one lock for the sessions of all devices: with several, two threads could
wait for each other.
"""

import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class _Gate:
    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.depth = 0
        self.waiting: deque[Callable[[], object]] = deque()

    def drain(self) -> None:
        before, self.depth = self.depth, self.depth + 1
        try:
            while self.waiting:
                self.waiting.popleft()()
        finally:
            self.depth = before


_gate = _Gate()


def _renew() -> None:
    """In a forked child: the thread that held the lock may not exist here."""
    global _gate
    _gate = _Gate()


os.register_at_fork(after_in_child=_renew)


@contextmanager
def exclusive() -> Iterator[None]:
    """Inside, no other thread opens, closes or changes a session. A thread may enter it twice.

    Example:
        >>> with exclusive(), exclusive():
        ...     print("alone")
        alone
    """
    gate = _gate
    with gate.lock:
        before = gate.depth
        if before == 0:
            gate.drain()
        try:
            gate.depth = before + 1
            yield
        finally:
            gate.depth = before
            if before == 0:
                gate.drain()


def when_free(work: Callable[[], object]) -> None:
    """Does something exclusively, but never waits for that: else whoever is inside does it later.

    For finalizers. The garbage collector calls them on any thread and at any point, so one that
    waits could wait for its own thread, or for one that waits for a lock of this one's.

    Args:
        work: must not raise.

    Example:
        >>> when_free(lambda: print("now"))
        now
    """
    gate = _gate
    gate.waiting.append(work)
    if gate.lock.acquire(blocking=False):
        try:
            if gate.depth == 0:
                gate.drain()
        finally:
            gate.lock.release()


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ctrl-C waits until the end of the block: half of an exchange must not be left behind.

    For what takes no longer than to copy memory. Other threads than the main one are never
    interrupted.

    Example:
        >>> with uninterrupted():
        ...     print("to the end")
        to the end
    """
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return
    came = False

    def note(_number: int, _frame: object) -> None:
        nonlocal came
        came = True

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if came:
            handler(signal.SIGINT, None)
