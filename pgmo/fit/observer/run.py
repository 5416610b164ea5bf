"""Runs the script as if nobody looked, with what looks attached to torch when it is imported."""

import json
import os
import sys
from pathlib import Path

from pgmo.fit.observer.watch import Watch
from pgmo.imports import after_import
from pgmo.runner.program import Program


def main(spec_path: str, command: list[str]) -> None:
    """Runs a command under observation, and ends as it does.

    Args:
        spec_path: of a JSON file: `evidence` and `snapshot`, the files that are written; `change`,
            one of `changes.CHANGES` or None; `call`, whether the command is MODULE:FUNCTION and a
            batch, which is called again and again.
        command: a script and its arguments, or "-m", a module and its arguments.
    """
    spec = json.loads(Path(spec_path).read_text())
    watch = Watch(Path(spec["evidence"]), Path(spec["snapshot"]), spec.get("change"))
    after_import("torch.optim.optimizer", watch.attach)
    if spec.get("call"):
        from pgmo.fit.observer.called import call

        call(command)
        return
    module = command[0] == "-m"
    target, *arguments = command[1:] if module else command
    # As in `python script`: what the observer's own -m has put there is not the script's.
    if module and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    ending = Program(target, module, tuple(arguments)).run()
    if ending.error is not None:
        raise ending.error
    sys.exit(ending.code)
