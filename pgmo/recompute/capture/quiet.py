"""Keeps PyTorch from logging what is raised anyway, and Python from looking for garbage."""

import gc
import logging
from collections.abc import Iterator
from contextlib import contextmanager

_LOGGERS = ("torch._subclasses.fake_tensor",)


@contextmanager
def without_logs() -> Iterator[None]:
    """Inside, operators whose sizes do not fit raise an error, and say nothing besides."""
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
    """Inside, Python looks for no garbage.

    While a step is measured, what goes of somebody else's would look as if it took less. While one
    is captured, millions of objects would be gone through again and again, and none of them goes.
    """
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()
