"""Keeps PyTorch from logging what is raised anyway, and Python from looking for garbage."""

import gc
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from pgmo.locks import new_reentrant_lock

CAPTURING = new_reentrant_lock()
"""PyTorch captures in one thread at a time."""

_LOGGERS = ("torch._subclasses.fake_tensor", "torch._dynamo.variables.tensor")

_hide: Any = vars(torch._logging)["hide_warnings"]


@contextmanager
def hide_warnings(is_hidden: Any) -> Iterator[None]:
    """Inside, some warnings are not shown, nor errors where warnings are.

    PyTorch reads `grad` of results, and hides the warning that comes of it where it is shown.

    Args:
        is_hidden: returns whether a warning is not shown.
    """
    with _hide(is_hidden), warnings.catch_warnings():
        warnings.simplefilter("always")
        yield


@contextmanager
def without_logs() -> Iterator[None]:
    """Inside, operators whose sizes do not fit raise an error, and nothing is said besides."""
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
