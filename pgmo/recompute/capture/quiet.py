"""Keeps PyTorch from logging an error that is raised anyway, with a traceback of its own code."""

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
