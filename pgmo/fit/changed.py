"""`python -m pgmo.fit.changed CHANGE SCRIPT ...`: a script with one change, to be really run."""

import os
import sys

from pgmo.fit.observer.changes import Change
from pgmo.imports import after_import
from pgmo.runner.program import Program


def main(change: str, command: list[str]) -> None:
    """Runs a command with a change, and ends as it does.

    Args:
        change: see `pgmo.fit.observer.changes`.
        command: a script and its arguments, or "-m", a module and its arguments.
    """
    after_import("torch.optim", Change(change).attach)
    module = command[0] == "-m"
    target, *arguments = command[1:] if module else command
    if module and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    ending = Program(target, module, tuple(arguments)).run()
    if ending.error is not None:
        raise ending.error
    sys.exit(ending.code)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
