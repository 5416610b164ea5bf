"""Tells a loop over a network's layers from a loop over iterations.

    train.py:20 in <module>        train.py:20 in <module>        outermost
    module.py:1779 in _call_impl   module.py:1779 in _call_impl   <- a module is being called
    model.py:253 in forward        model.py:249 in forward
    a layer, over and over         the embedding, once

Requests of 24 alike layers repeat just like those of 24 iterations. But then all of them come from
one line within a module's call, and other lines of the same call ask for memory, too.
"""

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pgmo.profiler.iterations.traces.period import Period, find_period
from pgmo.profiler.tag import Tag
from pgmo.profiler.trace import Trace

_CALLS = (" in _call_impl", " in _wrapped_call_impl")
_BEGINS = re.compile(r" in (?:<module>|_run_code|_run_module_as_main|_bootstrap)$")
"""The outermost call of a program, and of a thread that Python began."""


def is_within_module(trace: Trace, requests: NDArray[np.int64], period: Period) -> bool:
    """Whether what repeats is a loop within a module's call; False where stacks do not tell.

    Args:
        trace: the trace, its tags with stacks.
        requests: rows of its requests, shape (n,).
        period: of these.

    Example:
        >>> trace = Trace.from_columns(kind=[0] * 4, address=[64, 128, 192, 256], size=[8] * 4)
        >>> is_within_module(trace, np.arange(4), Period(1, 0, 4))
        False
    """
    tags = trace.tag[requests]
    # What comes before the first layer may by chance be of the size of what comes between them.
    strict = find_period(names_of(trace, requests) * (len(trace.tags) + 1) + tags)
    if strict is not None and strict.length == period.length:
        period = strict
    inside = _distinct(tags, period)
    outside = set(tags.tolist()) - inside
    stacks = [_outermost_first(trace, tag) for tag in inside]
    common = _common(stacks)
    while common and common[-1].endswith(_CALLS):
        common = common[:-1]
    if not any(line.endswith(_CALLS) for line in common):
        return False
    for tag in outside:
        stack = _outermost_first(trace, tag)
        shared = len(_common([stack, common]))
        called = any(line.endswith(_CALLS) for line in common[:shared])
        if called and shared < min(len(common), len(stack)):
            return True
    return False


def is_within_backward(trace: Trace, requests: NDArray[np.int64], period: Period) -> bool:
    """Whether what repeats is all made by autograd's engine, as far as stacks were recorded.

    It runs in a thread of its own, in which there are no calls of Python, or none but those of
    hooks and of what is computed again; and these do not begin where programs do.

    Args:
        trace: the trace, its tags with stacks.
        requests: rows of its requests, shape (n,).
        period: of these.

    Example:
        >>> trace = Trace.from_columns(kind=[0] * 4, address=[64, 128, 192, 256], size=[8] * 4)
        >>> is_within_backward(trace, np.arange(4), Period(1, 0, 4))
        False
    """
    tags = trace.tag[requests]
    if not any(trace.tags[tag].stack for tag in set(tags.tolist()) if tag >= 0):
        return False
    inside = [trace.tags[tag] if tag >= 0 else None for tag in _distinct(tags, period)]
    by_engine = any(tag is not None and tag.phase == "backward" for tag in inside)
    return by_engine and all(tag is not None and _is_backward(tag) for tag in inside)


def _is_backward(tag: Tag) -> bool:
    if tag.phase in ("backward", "optimizer"):
        return tag.phase == "backward"
    return bool(tag.stack and not _BEGINS.search(tag.stack[-1]))


def _distinct(tags: NDArray[np.int32], period: Period) -> set[int]:
    return set(tags[period.start : period.stop].tolist())


def names_of(trace: Trace, requests: NDArray[np.int64]) -> NDArray[np.int64]:
    """A number for each request, shape (n,); equal ones ask for the same size on the same stream.

    Example:
        >>> trace = Trace.from_columns(kind=[0] * 3, address=[64, 128, 192], size=[8, 4, 8])
        >>> names_of(trace, np.arange(3)).tolist()
        [1, 0, 1]
    """
    _, size = np.unique(trace.size[requests], return_inverse=True)
    _, stream = np.unique(trace.stream[requests], return_inverse=True)
    names: NDArray[np.int64] = size.astype(np.int64) * (stream.max(initial=0) + 1) + stream
    return names


def _outermost_first(trace: Trace, tag: int) -> tuple[str, ...]:
    return trace.tags[tag].stack[::-1] if tag >= 0 else ()


def _common(stacks: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """The lines that all stacks begin with."""
    low, high = min(stacks, default=()), max(stacks, default=())
    for at, line in enumerate(low):
        if at >= len(high) or high[at] != line:
            return low[:at]
    return low
