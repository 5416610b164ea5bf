"""A step that is a function: it is called as a loop would call it."""

import importlib
import inspect
import os
import runpy
import sys
from collections.abc import Callable
from typing import Any

CALLS = 8
"""As many iterations as a rehearsal looks at, and one to spare."""


def call(command: list[str]) -> None:
    """Calls a function again and again.

    Args:
        command: "MODULE:FUNCTION" or "FILE.py:FUNCTION", and then the batch, if it takes one.
    """
    step = _find(command[0])
    arguments = [int(one) for one in command[1:]] if inspect.signature(step).parameters else []
    for _ in range(CALLS):
        step(*arguments)


def _find(name: str) -> Callable[..., Any]:
    """The function; a file is run under another name than `__main__`, as an import would."""
    home, _, function = name.rpartition(":")
    if home.endswith(".py"):
        sys.path.insert(0, os.path.dirname(os.path.abspath(home)))
        names = runpy.run_path(home, run_name="pgmo_fit_step")
        found: Callable[..., Any] = names[function]
        return found
    sys.path.insert(0, os.getcwd())
    found = importlib.import_module(home)  # type: ignore[assignment]
    for part in function.split("."):
        found = getattr(found, part)
    return found
