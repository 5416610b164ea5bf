"""Loop around a job that is a function."""

import importlib
import inspect
import os
import runpy
import sys
from collections.abc import Callable
from typing import Any

CALLS = 12
"""Number of calls: two more than the iterations that a rehearsal requires."""


def call(command: list[str]) -> None:
    """Call a function repeatedly, as a training loop would."""
    step = _find(command[0])
    arguments = [int(one) for one in command[1:]] if inspect.signature(step).parameters else []
    for _ in range(CALLS):
        step(*arguments)


def _find(name: str) -> Callable[..., Any]:
    """Return the function that MODULE:FUNCTION or FILE:FUNCTION names.

    A file does not run as `__main__`, so that code for scripts is skipped as in an import.
    """
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
