"""Lines of the user's code, for messages."""

import functools
import inspect
import linecache
import os
from collections.abc import Callable
from types import CodeType
from typing import Any

import torch

_TORCH = os.path.dirname(torch.__file__) + os.sep
_OWN = os.path.dirname(os.path.dirname(os.path.dirname(__file__))) + os.sep


def is_foreign(filename: str) -> bool:
    """Return whether a file belongs neither to PyTorch nor to pgmo, and is no frozen module."""
    return not filename.startswith((_TORCH, _OWN, "<frozen"))


def line(filename: str, number: int) -> str:
    """Return the position and text, if readable, of a line, such as `model.py:12: return x`."""
    text = linecache.getline(filename, number).strip()
    return f"{filename}:{number}: {text}" if text else f"{filename}:{number}"


def describe_function(function: Callable[..., Any]) -> str:
    """Return the name of a function, and the file and line of its definition if known."""
    inner = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    inner = inspect.unwrap(getattr(inner, "__func__", inner))
    code = getattr(inner, "__code__", None)
    if code is None:
        code = getattr(type(inner).__call__, "__code__", None)
    name = getattr(inner, "__qualname__", type(inner).__qualname__)
    if not isinstance(code, CodeType):
        return f"`{name}`"
    return f"`{name}` ({code.co_filename}:{code.co_firstlineno})"


def line_of_error(error: BaseException) -> str | None:
    """Return the innermost line of the user's code in an error's traceback, or None."""
    found = None
    trace = error.__traceback__
    while trace is not None:
        if is_foreign(trace.tb_frame.f_code.co_filename):
            found = line(trace.tb_frame.f_code.co_filename, trace.tb_lineno)
        trace = trace.tb_next
    return found


def line_of_dynamo(error: BaseException | None) -> str | None:
    """Return the innermost line of the user's code that Dynamo traced before an error, or None."""
    for place in reversed(getattr(error, "real_stack", None) or ()):
        if is_foreign(place.filename):
            return line(place.filename, place.lineno or 0)
    return None
