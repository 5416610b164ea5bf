"""Keeps PyTorch from logging what is raised anyway, and Python from looking for garbage."""

import gc
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from pgmo.locks import new_reentrant_lock

CAPTURING = new_reentrant_lock()
"""PyTorch captures in one thread at a time."""

_LOGGERS = ("torch._subclasses.fake_tensor", "torch._dynamo.variables.tensor")

_NO_LEAF = "The .grad attribute of a Tensor that is not a leaf"
"""PyTorch looks at `grad` of what it is given, and warns whoever does so."""


@contextmanager
def without_logs() -> Iterator[None]:
    """Inside, operators whose sizes do not fit raise an error, and nothing is said besides."""
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    before = [one.level for one in loggers]
    for one in loggers:
        one.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=_NO_LEAF)
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
