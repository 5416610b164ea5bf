"""Distinction between a loop over a network's layers and a loop over iterations.

    train.py:20 in <module>        train.py:20 in <module>        outermost
    module.py:1779 in _call_impl   module.py:1779 in _call_impl   <- a module is being called
    model.py:253 in forward        model.py:249 in forward
    a layer, over and over         the embedding, once

Requests of 24 equal layers repeat like requests of 24 iterations. But the layers' requests all come
from one line within a module's call. Such a period is a loop over layers if there is one of two
signs. Either other lines of the module's call allocate, too. Or the line calls a single function,
and each pass of the loop goes through that function once:

    container.py:250 in forward    calls in one pass: block.py:31, block.py:32
    container.py:250 in forward    in several: linear.py:134, activation.py:133, linear.py:134
"""

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pgmo.columns import numbered_rows
from pgmo.profiler.iterations.traces.period import Period, find_period
from pgmo.profiler.tag import Tag
from pgmo.profiler.trace import Trace

_CALLS = (" in _call_impl", " in _wrapped_call_impl")
_FORWARD = re.compile(r" in _?forward(?:_\w+)?$")
"""Stack line in `forward`, or in a method that is called directly, such as `forward_features`."""

_PASSES_ON = re.compile(
    r"(?:^|/)(?:distributed|data_parallel|eval_frame|external_utils|_contextlib|autocast_mode|hooks"
    r"|operations|peft_model|tuners_utils|fully_sharded_data_parallel)\.py:\d+ in "
)
"""Stack lines of wrappers that call their inner module once and allocate nothing themselves."""

_BEGINS = re.compile(r" in (?:<module>|_run_code|_run_module_as_main|_bootstrap)$")
"""Stack line of a program's outermost call, or of a thread that Python started."""


def is_within_module(trace: Trace, period: Period) -> bool:
    """Return whether stacks show that the period is a loop within a module's call."""
    tags = trace.tag[trace.blocks.requests]
    # By sizes alone, a request before the first layer may seem to belong to the loop. So prefer a
    # stretch in which origins repeat, too.
    strict = find_period(names_of(trace) * (len(trace.tags) + 1) + tags)
    if strict is not None and strict.length == period.length:
        period = strict
    inside = _distinct(tags, period)
    outside = set(tags.tolist()) - inside
    stacks = [_outermost_first(trace, tag) for tag in inside]
    common = _common(stacks)
    while common and (common[-1].endswith(_CALLS) or _PASSES_ON.search(common[-1])):
        common = common[:-1]
    if not _is_in_call(common):
        return False
    for tag in outside:
        stack = _outermost_first(trace, tag)
        shared = len(_common([stack, common]))
        if shared == min(len(common), len(stack)):
            continue
        same = _FORWARD.search(common[shared]) and _function(common[shared]) == _function(
            stack[shared]
        )
        if same or _is_in_call(common[:shared]):
            return True
    turn = tags[period.start : period.start + period.length].tolist()
    return bool(outside) and _is_one_pass(
        [_called_by(common, _outermost_first(trace, tag)) for tag in turn]
    )


def is_training_loop(trace: Trace, period: Period) -> bool:
    """Return whether stacks show that the period is a training loop in the user's own code.

    train.py:20 in <module>    model(x)           one function makes all requests of the period,
    train.py:22 in <module>    loss + 1           within no call of a module, and there is a
    (autograd's thread)        loss.backward()    backward pass
    """
    inside = _distinct(trace.tag[trace.blocks.requests], period)
    tags = [trace.tags[one] for one in inside if one >= 0]
    if not any(_is_backward(tag) for tag in tags):
        return False
    tags = [one for one in tags if one.stack and _BEGINS.search(one.stack[-1])]
    stacks = [one.stack[::-1] for one in tags]
    common = _common(stacks)
    depth = len(common)
    if _is_in_call(common) or any(len(stack) <= depth for stack in stacks):
        return False
    functions = {_function(stack[depth]) for stack in stacks}
    # The innermost line of the user's own code lies in the loop's function, or is called by it.
    own = all(tag.file in stack[depth:] for tag, stack in zip(tags, stacks, strict=True))
    return own and len(functions) == 1 and not any(map(_FORWARD.search, functions))


def _is_in_call(lines: Sequence[str]) -> bool:
    """Return whether a stack, outermost call first, is within a module's call."""
    return any(line.endswith(_CALLS) or _FORWARD.search(line) for line in lines)


def _function(line: str) -> str:
    """Return the file and the function of a line of a stack."""
    return re.sub(r":\d+ in ", " in ", line)


def _called_by(common: Sequence[str], stack: Sequence[str]) -> str:
    """Return the first line of a stack below the common lines, without wrappers; "" if none."""
    below = (line for line in stack[len(common) :] if not line.endswith(_CALLS))
    return next((line for line in below if not _PASSES_ON.search(line)), "")


def _is_one_pass(lines: Sequence[str]) -> bool:
    """Return whether all lines are in one function that the period passes through once."""
    functions = {_function(line) for line in lines}
    begun = sum(line != before for before, line in zip((lines[-1], *lines), lines, strict=False))
    return len(functions) == 1 and "" not in functions and max(1, begun) == len(set(lines))


def is_within_backward(trace: Trace, period: Period) -> bool:
    """Return whether stacks show that autograd's engine makes every request of the period.

    The engine's own thread also runs hooks and recomputation. Stacks of that thread lack the
    program's first call.
    """
    tags = trace.tag[trace.blocks.requests]
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


def names_of(trace: Trace) -> NDArray[np.int64]:
    """Return a number for each recorded request, equal for equal size and stream, shape (n,)."""
    requests = trace.blocks.requests
    return numbered_rows(trace.size[requests], trace.stream[requests])


def _outermost_first(trace: Trace, tag: int) -> tuple[str, ...]:
    return trace.tags[tag].stack[::-1] if tag >= 0 else ()


def _common(stacks: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the lines that all stacks begin with."""
    low, high = min(stacks, default=()), max(stacks, default=())
    for at, line in enumerate(low):
        if at >= len(high) or high[at] != line:
            return low[:at]
    return low
