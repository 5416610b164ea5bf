"""Locks that a forked child finds free: the thread that held one does not exist there."""

import os
import threading
import weakref
from typing import Any

_all: "weakref.WeakSet[Any]" = weakref.WeakSet()


def new_lock() -> threading.Lock:
    """Return a lock as `threading.Lock` makes it, which is free in a forked child."""
    lock = threading.Lock()
    _all.add(lock)
    return lock


def new_reentrant_lock() -> Any:
    """Return a lock as `threading.RLock` makes it, which is free in a forked child."""
    lock = threading.RLock()
    _all.add(lock)
    return lock


def _free_all() -> None:
    for lock in list(_all):
        lock._at_fork_reinit()  # as threading and logging do with theirs


os.register_at_fork(after_in_child=_free_all)
