"""Locks that are free in a forked child, where the thread that held them does not exist."""

import os
import threading
import weakref
from typing import Any

_all: "weakref.WeakSet[Any]" = weakref.WeakSet()


def new_lock() -> threading.Lock:
    """Return a `threading.Lock` that is free in a forked child."""
    lock = threading.Lock()
    _all.add(lock)
    return lock


def new_reentrant_lock() -> Any:
    """Return a `threading.RLock` that is free in a forked child."""
    lock = threading.RLock()
    _all.add(lock)
    return lock


def _free_all() -> None:
    for lock in list(_all):
        lock._at_fork_reinit()  # threading and logging do the same with their locks.


os.register_at_fork(after_in_child=_free_all)
