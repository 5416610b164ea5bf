"""Lock for the ends of iterations, and for opening and closing sessions.

    thread A   train  step( learn, plan, install )  train
    thread B   train       step( waits ............ its own )  train

The engine serves all threads at once, but only one thread at a time may change plans and arenas.
One lock covers the sessions of all devices: with several locks, two threads could deadlock.
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
        """Run waiting callbacks, unless a thread holds the lock: that thread runs them later."""
        while self.waiting and self.lock.acquire(blocking=False):
            try:
                if self.depth:
                    return
                self.drain()
            finally:
                self.lock.release()


def _do(work: Callable[[], object]) -> None:
    """Run a finalizer and print its exceptions, because the current thread did not cause them."""
    try:
        work()
    except Exception as error:
        print("pgmo: closing a lost session failed:", file=sys.stderr)
        traceback.print_exception(error)


_gate = _Gate()


def _renew() -> None:
    """Replace the lock in a forked child: the thread that held the lock might not exist there."""
    global _gate
    _gate = _Gate()


os.register_at_fork(after_in_child=_renew)


class exclusive:  # noqa: N801  (it is used like a function)
    """Context in which no other thread opens, closes or changes a session; reentrant.

    Unlike a `contextlib.contextmanager`, it releases the lock if Ctrl-C arrives just after the lock
    was acquired.
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
        gate.take_up()  # also runs callbacks that arrived while the lock was being released


def when_free(work: Callable[[], object]) -> None:
    """Run a callback under the lock: now, or later on the thread that holds the lock.

    Finalizers need this: they run on any thread at any point, so waiting for a lock could deadlock.
    Exceptions of the callback are printed.
    """
    gate = _gate
    gate.waiting.append(work)
    gate.take_up()


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Delay Ctrl-C until the end of the `with` block, if Python handles Ctrl-C on this thread."""
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
