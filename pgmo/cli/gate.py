"""Implementation of `pgmo check NEW --against BASE`: comparison with an earlier state."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from pgmo.cli.exit_codes import CHECK_FAILED
from pgmo.errors import OptionError

if TYPE_CHECKING:
    from pgmo.report.gate.gate import Gate

_ONLY = ("tolerance", "markdown")


def add_gate_arguments(parser: argparse.ArgumentParser) -> None:
    """Add `--against` and the options that are used with it."""
    group = parser.add_argument_group("compare with an earlier state")
    group.add_argument(
        "--against",
        metavar="BASE",
        help="a profile or plan of an earlier state, or a folder of them; fail if max load, "
        "arena, persistent bytes or the number of blocks have grown",
    )
    group.add_argument(
        "--tolerance",
        metavar="SHARE",
        help="allowed growth: a share, such as 5%%, or a size, such as 64KiB (default: 1%%)",
    )
    group.add_argument(
        "--markdown", metavar="FILE", help="write a Markdown table for a pull request to FILE"
    )
    group.add_argument("--force", action="store_true", help="overwrite existing files")


def misplaced(arguments: argparse.Namespace) -> str:
    """Return the argument that needs `--against` or conflicts with it; "" for none.

    Raises:
        OptionError: if a file name is empty.
    """
    for name in ("against", "markdown"):
        if getattr(arguments, name) == "":
            raise OptionError(f"--{name} is empty; name a file, or leave it out")
    if arguments.profile == "":
        raise OptionError("PROFILE is empty; name a file, or leave it out")
    if arguments.against is None:
        return next((f"--{name}" for name in _ONLY if getattr(arguments, name) is not None), "")
    return "PROFILE" if arguments.profile is not None else ""


def run_gate(arguments: argparse.Namespace) -> int:
    """Compare two states, write the table, and print the result. Return the exit code."""
    from pgmo.cli.targets import check_targets, refuse_our_suffix
    from pgmo.cli.terminal.output import print_json, print_wrote
    from pgmo.files.replacement import replace_file
    from pgmo.report.gate.gate import compare_states
    from pgmo.report.gate.tolerance import Tolerance
    from pgmo.report.gate.words import markdown_lines, text_lines

    text = arguments.tolerance
    tolerance = Tolerance() if text is None else Tolerance.read(text)
    wanted = [arguments.markdown] if arguments.markdown else []
    for path in wanted:
        refuse_our_suffix(path, "the table for a pull request", ".md")
    sources = (arguments.plan, arguments.against)
    check_targets(wanted, force=arguments.force, sources=sources)
    gate = compare_states(Path(arguments.plan), Path(arguments.against), tolerance)
    for path in wanted:
        text = "\n".join(markdown_lines(gate)) + "\n"
        # A file name that is not UTF-8 contains lone surrogates.
        replace_file(Path(path), text.encode(errors="replace"))
    if arguments.json:
        print_json(_document(arguments, gate))
    else:
        print("\n".join(text_lines(gate)))
    print_wrote(wanted)
    return 0 if gate.passed else CHECK_FAILED


def _document(arguments: argparse.Namespace, gate: "Gate") -> dict[str, object]:
    from dataclasses import asdict

    programs = [
        {
            "name": program.name,
            "passed": not program.failed,
            "figures": [
                {**asdict(figure), "passed": not figure.failed} for figure in program.figures
            ],
        }
        for program in gate.programs
    ]
    return {
        "file": arguments.plan,
        "against": arguments.against,
        "tolerance": str(gate.tolerance),
        "passed": gate.passed,
        "programs": programs,
        "new": list(gate.new),
        "gone": list(gate.gone),
    }
