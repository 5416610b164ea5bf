"""Entry point `python -m pgmo.fit.next_plan.changed CHANGE SCRIPT ...`."""

import sys

from pgmo.fit.observer.changes import ScriptChange
from pgmo.imports import after_import
from pgmo.runner.program import Program


def main(change: str, command: list[str]) -> None:
    """Run a command with a change of `pgmo.fit.observer.changes`, and exit as the command does."""
    after_import("torch.optim", ScriptChange(change).attach)
    Program.of(command).run_and_leave()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
