"""Catalogue of the sub-commands: names, groups, and one-line help texts.

The texts are copies of the first lines of the commands' docstrings, because reading the docstrings
would import every command. A test compares both.
"""


# A plain class: importing dataclasses or typing takes longer than importing argparse.
class Command:
    """One sub-command: the folder of its module (`stage`), and its line in the help (`summary`)."""

    def __init__(self, stage: str, summary: str) -> None:
        self.stage = stage
        self.summary = summary


STAGES = {
    "programs": "Programs",
    "profiles": "Profiles and plans",
    "machine": "This machine",
}
"""Headings of the stages, in the order of the help."""

# One line per command, in the order of the help.
COMMANDS = {
    "fit": Command(
        "programs",
        "Predict whether a job fits on a card, with which batch, and which changes would help",
    ),
    "run": Command("programs", "Run a training script under pgmo, without changing it"),
    "rehearse": Command(
        "programs",
        "Run a script on a simulated card, and report how much of its memory the script takes",
    ),
    "share": Command(
        "programs",
        "Let programs share a card: they take turns, one iteration at a time",
    ),
    "plan": Command(
        "profiles", "Compute an offset for every block of a profile, and save the plan"
    ),
    "recompute": Command(
        "programs",
        "Plan which activations a model recomputes, so that a training step fits a memory budget",
    ),
    "stats": Command("profiles", "Show the blocks, the max load and the peak of a profile or plan"),
    "compare": Command(
        "profiles",
        "Compare two profiles or plans, or one profile with PyTorch's allocator",
    ),
    "report": Command(
        "profiles",
        "Write a report of a profile: one HTML page with every block's lifetime and offset",
    ),
    "export": Command("profiles", "Write the blocks of a profile or a plan for other tools"),
    "check": Command(
        "profiles",
        "Check a plan, alone or against its profile; or check that memory has not grown",
    ),
    "doctor": Command(
        "machine", "Examine this machine: what pgmo can use, what limits it, and how to fix that"
    ),
}
"""Every sub-command by name."""


def module_of(name: str) -> str:
    """Return the name of a sub-command's module, which has its help, options and implementation."""
    return f"pgmo.cli.commands.{COMMANDS[name].stage}.{name}"
