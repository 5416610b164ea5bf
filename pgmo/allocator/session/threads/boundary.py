"""One thread at a time: what sessions do between iterations, and when they open and close.

    thread A   train  step( learn, plan, install )  train
    thread B   train       step( waits ............ its own )  train

The engine serves all threads at once. What changes plans and arenas must see none of that change
beneath it, so there is one lock for the sessions of all devices: with several, two threads could
wait for each other.
"""

import os
import signal
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterator
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
                _do(self.waiting.popleft())
        finally:
            self.depth = before

    def take_up(self) -> None:
        """Does what waits, unless somebody is inside, who does it on the way out."""
        while self.waiting and self.lock.acquire(blocking=False):
            try:
                if self.depth:
                    return
                self.drain()
            finally:
                self.lock.release()


def _do(work: Callable[[], object]) -> None:
    """What a finalizer fails at is shown, and is nobody else's failure."""
    try:
        work()
    except Exception as error:
        print("pgmo: closing a lost session failed:", file=sys.stderr)
        traceback.print_exception(error)


_gate = _Gate()


def _renew() -> None:
    """In a forked child: the thread that held the lock may not exist here."""
    global _gate
    _gate = _Gate()


os.register_at_fork(after_in_child=_renew)


class exclusive:  # noqa: N801  (it is used like a function)
    """Inside, no other thread opens, closes or changes a session. A thread may enter it twice.

    Ctrl-C may come when the lock has just been taken, where `contextlib.contextmanager` would keep
    it as long as somebody keeps the traceback.
    """

    def __init__(self) -> None:
        self._inside = _alone()

    def __enter__(self) -> None:
        try:
            next(self._inside)
        except BaseException:
            self._inside.close()
            raise

    def __exit__(self, *_error: object) -> None:
        self._inside.close()


def _alone() -> Generator[None, None, None]:
    gate = _gate
    try:
        with gate.lock:
            before = gate.depth
            if before == 0:
                gate.drain()
            try:
                gate.depth = before + 1
                yield
            finally:
                gate.depth = before
    finally:
        gate.take_up()  # also what came while the lock was being released


def when_free(work: Callable[[], object]) -> None:
    """Does something exclusively, but never waits for that: else whoever is inside does it later.

    For finalizers. The garbage collector calls them on any thread and at any point, so one that
    waits could wait for its own thread, or for one that waits for a lock of this one's.

    Args:
        work: what it raises is shown, and goes no further.
    """
    gate = _gate
    gate.waiting.append(work)
    gate.take_up()


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ctrl-C waits until the end of the block: half of an exchange must not be left behind.

    For what is quick, and for the end of a session, which may have a plan to save. Other threads
    than the main one are never interrupted.
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
