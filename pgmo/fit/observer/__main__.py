"""Entry point `python -m pgmo.fit.observer SPEC SCRIPT ...`, which a rehearsal runs."""

import importlib.util
import inspect
import json
import os
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pgmo.fit.observer.watch import Watch
from pgmo.imports import after_import
from pgmo.runner.program import Program

_CALLS = 12
"""Number of calls of a function: two more than the iterations that a rehearsal requires."""


def main(spec_path: str, command: list[str]) -> None:
    """Run a command, and attach the observer to torch when the command imports it.

    The file at `spec_path` has the argument `spec` of `Watch` as JSON, and `call`. If `call` is
    true, the command is a function (see `_find`) and a batch; else a script, or "-m" and a module.
    """
    spec = json.loads(Path(spec_path).read_text())
    watch = Watch(spec, None if spec.get("call") else _file_of(command))
    watch.hook_libraries()
    after_import("torch.optim.optimizer", watch.attach)
    if spec.get("call"):
        _call(command)
    else:
        Program.of(command).run_and_leave()


def _file_of(command: list[str]) -> Path | None:
    """Return the Python file of a command's script or module; None if there is none."""
    path = command[0]
    if path == "-m":
        found = importlib.util.find_spec(command[1])
        path = found.origin if found is not None and found.origin else ""
        if found is not None and found.submodule_search_locations:
            # An import of the package's __main__ would run the package before the hooks exist.
            path = str(Path(found.submodule_search_locations[0], "__main__.py"))
    return Path(path) if path.endswith(".py") else None


def _call(command: list[str]) -> None:
    """Call a function repeatedly, as a training loop would."""
    step = _find(command[0])
    arguments = [int(one) for one in command[1:]] if inspect.signature(step).parameters else []
    for _ in range(_CALLS):
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


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
