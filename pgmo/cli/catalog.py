"""Catalogue of the sub-commands: names, stages of a user's work, one-line help texts.

The texts repeat the first lines of the commands' docstrings, which a test compares. Reading these
instead would import every command, or parse its source, to show one help text. An installation may
also lack the sources.
"""


# A plain class: importing dataclasses or typing takes longer than importing argparse.
class Command:
    """One sub-command.

    Args:
        stage: one of `STAGES`; its module is in the folder of that name.
        summary: its line in the help: the first of its docstring without the full stop.
    """

    def __init__(self, stage: str, summary: str) -> None:
        self.stage = stage
        self.summary = summary


STAGES = {
    "programs": "Programs",
    "profiles": "Profiles and plans",
    "machine": "This machine",
}
"""Headings of the stages, in the order of a user's work."""

# One line per command, in the order of the help.
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
"""Every sub-command by name."""


def module_of(name: str) -> str:
    """Return the name of a sub-command's module, which has its help, options and implementation."""
    return f"pgmo.cli.commands.{COMMANDS[name].stage}.{name}"
