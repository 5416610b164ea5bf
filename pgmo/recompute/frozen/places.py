"""Lines of the user's code, as messages name them."""

import functools
import inspect
import linecache
import os
import re
import sysconfig
from collections.abc import Callable
from types import CodeType
from typing import Any

import torch

_PACKAGES = ("site-packages", "dist-packages")
_TORCH = os.path.dirname(torch.__file__) + os.sep
_PYTHON = sysconfig.get_path("stdlib") + os.sep
_INSTALLED = tuple(os.path.join(_PYTHON, name) + os.sep for name in _PACKAGES)
_OWN = os.path.dirname(os.path.dirname(os.path.dirname(__file__))) + os.sep


def is_foreign(filename: str) -> bool:
    """Whether a file is neither PyTorch's nor of this package: the user's, or another library's."""
    return not filename.startswith((_TORCH, _OWN, "<frozen"))


def is_scanned(filename: str) -> bool:
    """Whether code of a file is looked at: Python's own has caches, and no settings of a model."""
    inside = filename.startswith(_PYTHON) and not filename.startswith(_INSTALLED)
    return is_foreign(filename) and not inside


def line(filename: str, number: int) -> str:
    """A line and what is written there, such as `model.py:12: return self.weight * x`."""
    text = linecache.getline(filename, number).strip()
    return f"{filename}:{number}: {text}" if text else f"{filename}:{number}"


def of_function(function: Callable[..., Any]) -> str:
    """Name of a function and where it is defined.

    Example:
        >>> of_function(len)
        '`len`'
    """
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


def of_error(error: BaseException) -> str | None:
    """The innermost line of code that is not PyTorch's in an error's traceback."""
    found = None
    trace = error.__traceback__
    while trace is not None:
        if is_foreign(trace.tb_frame.f_code.co_filename):
            found = line(trace.tb_frame.f_code.co_filename, trace.tb_lineno)
        trace = trace.tb_next
    return found


def of_assignment(kind: type, name: str) -> str | None:
    """The line of a class, or of one that it inherits from, which writes to an attribute."""
    pattern = re.compile(rf"\.{re.escape(name)}\b(\[[^]]*\])?\s*(:[^=]+)?([-+*/|&]|//|\*\*)?=(?!=)")
    called = re.compile(rf"\.{re.escape(name)}\.(append|extend|update|insert|add|pop|clear)\(")
    for one in kind.__mro__:
        try:
            lines, first = inspect.getsourcelines(one)
        except (OSError, TypeError):
            continue
        found = [
            (number, text)
            for number, text in enumerate(lines, first)
            if pattern.search(text) or called.search(text)
        ]
        later = [number for number, _ in found if not _in_init(lines, number - first)]
        if later:
            return line(inspect.getsourcefile(one) or "", later[0])
    return None


def _in_init(lines: list[str], index: int) -> bool:
    defined = (text for text in reversed(lines[: index + 1]) if text.lstrip().startswith("def "))
    return "def __init__" in next(defined, "")
