"""The sub-commands: their names, their stages in a user's work, their one-line help.

The lines repeat the first lines of the commands' docstrings (a test compares them). Reading these
instead would mean importing every command, or parsing its source, to show the help of one; and an
installation may hold no sources.
"""


# A plain class: dataclasses or typing alone take longer to import than argparse.
class Command:
    """A sub-command.

    Args:
        stage: of `STAGES`; its module is in the folder of that name.
        summary: its line in the help, the first of its docstring without the full stop.
    """

    def __init__(self, stage: str, summary: str) -> None:
        self.stage = stage
        self.summary = summary


STAGES = {
    "programs": "Programs",
    "profiles": "Profiles and plans",
    "machine": "This machine",
}
"""Headings, in the order of a user's work."""

# One line a command, in the order in which the help lists them.
COMMANDS = {
    "fit": Command(
        "programs",
        "Say whether a job fits on a card, with which batch, and what would make it fit",
    ),
    "run": Command("programs", "Run a training script under pgmo, without changing it"),
    "rehearse": Command(
        "programs",
        "Run a script on a card that is not there, and say what it would take of it",
    ),
    "share": Command(
        "programs",
        "Have programs share a card: an iteration of one at a time, by turns",
    ),
    "plan": Command("profiles", "Compute where every block of a profile goes, and save the plan"),
    "recompute": Command(
        "programs",
        "Plan what a model computes again, so that a training step fits in a budget of memory",
    ),
    "stats": Command("profiles", "Show the blocks, the max load and the peak of a profile or plan"),
    "compare": Command(
        "profiles",
        "Compare two profiles or plans, or one profile with PyTorch's allocator",
    ),
    "report": Command(
        "profiles",
        "Write a report of a profile: one HTML page that shows every block at its place",
    ),
    "export": Command("profiles", "Write the blocks of a profile or a plan for other tools"),
    "check": Command(
        "profiles",
        "Check a plan, and that it belongs to its profile; or that memory has not grown since",
    ),
    "doctor": Command("machine", "Say what this machine has, what is in the way, and what to do"),
}
"""Every sub-command by its name."""


def module_of(name: str) -> str:
    """The module of a sub-command, which has its help, its options and what it does."""
    return f"pgmo.cli.commands.{COMMANDS[name].stage}.{name}"
