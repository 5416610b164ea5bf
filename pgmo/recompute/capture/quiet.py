"""Contexts of a capture: fewer logs and warnings, no garbage collection."""

import gc
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from pgmo.locks import new_reentrant_lock

CAPTURING = new_reentrant_lock()
"""Lock of captures: PyTorch captures in one thread at a time."""

_LOGGERS = ("torch._subclasses.fake_tensor", "torch._dynamo.variables.tensor")

_hide: Any = vars(torch._logging)["hide_warnings"]


@contextmanager
def hide_warnings(is_hidden: Any) -> Iterator[None]:
    """Hide some warnings while a block runs, and do not raise warnings as errors.

    PyTorch reads `grad` of results, and hides the warning only where it would be shown.
    """
    with _hide(is_hidden), warnings.catch_warnings():
        warnings.simplefilter("always")
        yield


@contextmanager
def without_logs() -> Iterator[None]:
    """Silence PyTorch's loggers for a block: sizes that do not match raise an error anyway."""
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

    During a measurement, freed garbage of other code would make the step look smaller. During a
    capture, each collection would visit millions of objects and free none of them.
    """
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()
