"""Catalogue of the sub-commands: each is a file in the folder of its stage."""

from pathlib import Path

STAGES = {
    "programs": "Programs",
    "profiles": "Profiles and plans",
    "machine": "This machine",
}
"""Headings of the stages, in the order of the help."""

COMMANDS = {
    "fit": "programs",
    "run": "programs",
    "rehearse": "programs",
    "share": "programs",
    "plan": "profiles",
    "recompute": "programs",
    "stats": "profiles",
    "compare": "profiles",
    "report": "profiles",
    "export": "profiles",
    "check": "profiles",
    "doctor": "machine",
}
"""Stage of every sub-command, in the order of the help."""


def module_of(name: str) -> str:
    """Return the name of a sub-command's module, which has its help, options and implementation."""
    return f"pgmo.cli.commands.{COMMANDS[name]}.{name}"


def summary_of(name: str) -> str:
    """Return the first line of a sub-command's docstring, without importing its module."""
    path = Path(__file__).with_name("commands") / COMMANDS[name] / f"{name}.py"
    with path.open(encoding="utf-8") as file:
        return file.readline().strip().strip('"').removesuffix(".")
