"""The sub-commands: their names, their stages in a user's work, their one-line help.

The lines repeat the first lines of the commands' docstrings (a test compares them). Reading these
instead would mean importing every command, or parsing its source, to show the help of one; and an
installation may hold no sources.
"""


# A plain class: dataclasses or typing alone take longer to import than argparse.
class Command:
    """A sub-command.

    Args:
        stage: the heading under which the help lists it.
        module: of `pgmo.cli.commands`.
        summary: its line in the help, the first of its docstring without the full stop.

    Example:
        >>> COMMANDS["plan"].stage
        'files'
    """

    def __init__(self, stage: str, module: str, summary: str) -> None:
        self.stage = stage
        self.module = module
        self.summary = summary


STAGES = {
    "programs": "Programs",
    "files": "Profiles and plans",
    "machine": "This machine",
}
"""Headings, in the order of a user's work."""

# One line a command, in the order in which the help lists them.
COMMANDS = {
    "fit": Command(
        "programs",
        "programs.fit",
        "Say whether a job fits on a card, with which batch, and what would make it fit",
    ),
    "run": Command(
        "programs", "programs.run", "Run a training script under pgmo, without changing it"
    ),
    "rehearse": Command(
        "programs",
        "programs.rehearse",
        "Run a script on a card that is not there, and say what it would take of it",
    ),
    "share": Command(
        "programs",
        "programs.share",
        "Have programs share a card: an iteration of one at a time, by turns",
    ),
    "plan": Command(
        "files", "profiles.plan", "Compute where every block of a profile goes, and save the plan"
    ),
    "recompute": Command(
        "programs",
        "programs.recompute",
        "Plan what a model computes again, so that a training step fits in a budget of memory",
    ),
    "stats": Command(
        "files", "profiles.stats", "Show the blocks, the max load and the peak of a profile or plan"
    ),
    "compare": Command(
        "files",
        "profiles.compare",
        "Compare two profiles or plans, or one profile with PyTorch's allocator",
    ),
    "report": Command(
        "files",
        "profiles.report",
        "Write a report of a profile: one HTML page that shows every block at its place",
    ),
    "export": Command(
        "files", "profiles.export", "Write the blocks of a profile or a plan for other tools"
    ),
    "check": Command(
        "files",
        "profiles.check",
        "Check a plan, and that it belongs to its profile; or that memory has not grown since",
    ),
    "doctor": Command(
        "machine", "machine.doctor", "Say what this machine has, what is in the way, and what to do"
    ),
}
"""Every sub-command by its name."""


def module_of(name: str) -> str:
    """The module of a sub-command, which has its help, its options and what it does.

    Example:
        >>> module_of("plan")
        'pgmo.cli.commands.profiles.plan'
    """
    return f"pgmo.cli.commands.{COMMANDS[name].module}"
