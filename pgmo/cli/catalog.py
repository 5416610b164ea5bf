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
        'plan'
    """

    def __init__(self, stage: str, module: str, summary: str) -> None:
        self.stage = stage
        self.module = module
        self.summary = summary


STAGES = {
    "before": "Before there is a card",
    "record": "Record a program",
    "plan": "Plan its memory",
    "look": "Look at where memory goes",
    "check": "Check plans and machines",
}
"""Headings, in the order of a user's work."""

# One line a command, in the order in which the help lists them.
COMMANDS = {
    "fit": Command(
        "before",
        "programs.fit",
        "Say whether a job fits on a card, with which batch, and what would make it fit",
    ),
    "run": Command(
        "record", "programs.run", "Run a training script under pgmo, without changing it"
    ),
    "rehearse": Command(
        "record",
        "programs.rehearse",
        "Run a script on a card that is not there, and say what it would take of it",
    ),
    "share": Command(
        "record",
        "programs.share",
        "Have programs share a card: an iteration of one at a time, by turns",
    ),
    "top": Command(
        "record",
        "programs.top",
        "Watch programs that run under pgmo run on this machine: arena, hits, peaks, and why not "
        "more",
    ),
    "import": Command(
        "record",
        "profiles.import_file",
        "Make a profile of what another tool recorded: a memory snapshot, a log, a table",
    ),
    "plan": Command(
        "plan", "profiles.plan", "Compute where every block of a profile goes, and save the plan"
    ),
    "recompute": Command(
        "plan",
        "programs.recompute",
        "Plan what a model computes again, so that a training step fits in a budget of memory",
    ),
    "stats": Command(
        "look", "profiles.stats", "Show the blocks, the max load and the peak of a profile or plan"
    ),
    "blocks": Command("look", "profiles.blocks", "List the blocks of a profile, or who holds them"),
    "leaks": Command(
        "look",
        "profiles.leaks",
        "Find blocks that accumulate over iterations, and where they come from",
    ),
    "compare": Command(
        "look",
        "profiles.compare",
        "Compare two profiles or plans, or one profile with PyTorch's allocator",
    ),
    "report": Command(
        "look",
        "profiles.report",
        "Write a report of a profile: one HTML page that shows every block at its place",
    ),
    "export": Command(
        "look", "profiles.export", "Write the blocks of a profile or a plan for other tools"
    ),
    "check": Command(
        "check",
        "profiles.check",
        "Check a plan, and that it belongs to its profile; or that memory has not grown since",
    ),
    "doctor": Command(
        "check", "machine.doctor", "Say what this machine has, what is in the way, and what to do"
    ),
    "cache": Command(
        "check", "machine.cache", "Show what pgmo keeps in the cache folder, and clear it"
    ),
    "demo": Command(
        "check", "machine.demo", "Train four real networks, without and with pgmo, and compare"
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
