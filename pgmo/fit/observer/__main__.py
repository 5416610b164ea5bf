"""Entry point `python -m pgmo.fit.observer SPEC SCRIPT ...`, which a rehearsal runs."""

import importlib.util
import json
import sys
from pathlib import Path

from pgmo.fit.observer.called import call
from pgmo.fit.observer.watch import Watch
from pgmo.imports import after_import
from pgmo.runner.program import Program


def main(spec_path: str, command: list[str]) -> None:
    """Run a command, and attach the observer to torch when the command imports it.

    The file at `spec_path` has the fields of `Watch` as JSON, and `call`: whether the command is
    MODULE:FUNCTION and a batch, instead of a script or "-m" and a module.
    """
    spec = json.loads(Path(spec_path).read_text())
    watch = Watch(spec, None if spec.get("call") else _file_of(command))
    watch.hook_libraries()
    after_import("torch.optim.optimizer", watch.attach)
    if spec.get("call"):
        call(command)
    else:
        Program.of(command).run_and_leave()


def _file_of(command: list[str]) -> Path | None:
    """Return the file of source code that a command runs; None if it runs no such file."""
    path = command[0]
    if path == "-m":
        found = importlib.util.find_spec(command[1])
        path = found.origin if found is not None and found.origin else ""
    return Path(path) if path.endswith(".py") else None


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
