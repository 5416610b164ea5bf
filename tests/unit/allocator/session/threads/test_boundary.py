"""Boundary: one thread at a time, and Ctrl-C after it."""

import ctypes
import os
import signal
import threading
from collections import deque

import pytest

from pgmo.allocator.session.threads import boundary
from pgmo.allocator.session.threads.boundary import exclusive, uninterrupted, when_free


def on_another_thread(work):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()


def test_the_thread_inside_runs_waiting_callbacks_as_it_leaves():
    done = []
    with exclusive():
        on_another_thread(lambda: when_free(lambda: done.append("other")))
        with exclusive():
            when_free(lambda: done.append("own"))
        assert done == []
    assert done == ["other", "own"]
    when_free(lambda: done.append("free"))
    assert done[-1] == "free"


def test_waiting_callbacks_run_before_the_lock_is_taken_again():
    done = []
    with exclusive():
        when_free(lambda: when_free(lambda: done.append("later")))
    with exclusive():
        assert done == ["later"]


class Interrupting(boundary._Gate):
    """Lock whose owner gets Ctrl-C after taking it, before the block begins."""

    # A C function, because Python checks for signals after a Python function returns.
    come = ctypes.PYFUNCTYPE(None, ctypes.py_object, ctypes.py_object)(
        ("PyErr_SetInterrupt", ctypes.pythonapi)
    )
    depth = property(lambda _: 0, come)

    def __init__(self):
        self.lock, self.waiting = threading.RLock(), deque()

    def drain(self):
        pass


def test_ctrl_c_when_it_has_just_gone_in_leaves_it_free(monkeypatch):
    """A kept error keeps its frames alive, but the frames do not hold the lock."""
    gate = Interrupting()
    monkeypatch.setattr(boundary, "_gate", gate)
    with pytest.raises(KeyboardInterrupt) as kept, exclusive():
        pytest.fail("it was not interrupted")
    free = []

    def try_it():
        free.append(gate.lock.acquire(blocking=False))

    on_another_thread(try_it)
    assert free == [True]
    assert kept.value is not None


def test_ctrl_c_waits_and_comes():
    done = []
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        with uninterrupted():
            with uninterrupted():
                os.kill(os.getpid(), signal.SIGINT)
                done.append("inner")
            done.append("outer")
    assert done == ["inner", "outer"]
    assert signal.getsignal(signal.SIGINT) is handler
    with uninterrupted():
        pass


def test_other_threads_and_other_handlers_are_left_alone():
    seen = []

    def look():
        with uninterrupted():
            seen.append(signal.getsignal(signal.SIGINT))

    handler = signal.getsignal(signal.SIGINT)
    on_another_thread(look)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        look()
    finally:
        signal.signal(signal.SIGINT, handler)
    assert seen == [handler, signal.SIG_IGN]


def test_an_error_of_a_callback_is_printed_and_not_raised(capsys):
    done = []

    def fail():
        raise RuntimeError("the disk is full")

    with exclusive():
        when_free(fail)
        when_free(lambda: done.append(1))
        assert not capsys.readouterr().err
    assert capsys.readouterr().err.endswith("RuntimeError: the disk is full\n")
    assert done == [1]
