"""Contexts of a capture: changes of PyTorch, no logs, no warnings, no garbage collection."""

import gc
import logging
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch

from pgmo.locks import new_reentrant_lock

CAPTURING = new_reentrant_lock()
"""Lock of captures, because PyTorch can capture in only one thread at a time."""

_LOGGERS = ("torch._subclasses.fake_tensor", "torch._dynamo.variables.tensor")

_hide: Any = vars(torch._logging)["hide_warnings"]


class SharedChange:
    """Change of PyTorch for all threads.

    The first thread that enters makes the change. The last thread that leaves undoes it.
    """

    def __init__(self, changes: Callable[[ExitStack], None]) -> None:
        self._changes, self._lock = changes, threading.Lock()
        self._inside, self._stack = 0, ExitStack()

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._changes(self._stack)
            self._inside += 1

    def __exit__(self, *_error: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._stack.close()


@contextmanager
def hide_warnings(is_hidden: Any) -> Iterator[None]:
    """Hide the warnings for which `is_hidden` is true, even if warnings are errors.

    `torch._logging.hide_warnings` raises an error for a hidden warning if warnings are errors.
    """
    with _hide(is_hidden), warnings.catch_warnings():
        warnings.simplefilter("always")
        yield


@contextmanager
def without_logs() -> Iterator[None]:
    """Silence PyTorch's loggers of captures while a block runs. Exceptions are still raised."""
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    before = [one.level for one in loggers]
    for one in loggers:
        one.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for one, level in zip(loggers, before, strict=True):
            one.setLevel(level)


@contextmanager
def without_collector() -> Iterator[None]:
    """Disable the garbage collector while a block runs.

    In a measurement, a collection would free garbage of other code, which would reduce the measured
    bytes. In a capture, each collection visits millions of objects and frees none.
    """
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()
