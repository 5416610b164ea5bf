"""Check a plan, alone or against its profile; or check that memory has not grown.

Checks each plan in the file: no two live blocks may overlap. Max load, bound and fingerprint must
be right for the plan's blocks. With PROFILE, plan and profile must have the same blocks.

With --against, compares a profile or plan, or all in a folder, with an earlier state. Max load,
arena, persistent bytes and number of blocks may grow by at most the tolerance. For profiles, also
lists the modules and operators that hold more.

Exit code 3: a check failed, a figure has grown beyond the tolerance, or a program of the earlier
state is missing; 1: a file cannot be read.
"""

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from pgmo.cli.exit_codes import CHECK_FAILED
from pgmo.cli.source import read_profile
from pgmo.cli.targets import check_targets, refuse_our_suffix
from pgmo.cli.terminal.output import as_command, print_json, print_wrote
from pgmo.errors import OptionError
from pgmo.files.replacement import replace_file

if TYPE_CHECKING:
    from pgmo.report.gate.gate import Gate


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `pgmo check`."""
    parser.add_argument(
        "plan", metavar="PLAN", help="a .pgmoplan file; with --against also a profile, or a folder"
    )
    parser.add_argument(
        "profile", metavar="PROFILE", nargs="?", help="the profile that the plan was made from"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    group = parser.add_argument_group("compare with an earlier state")
    group.add_argument(
        "--against",
        metavar="BASE",
        help="a profile or plan of an earlier state, or a folder of them; fail if max load, "
        "arena, persistent bytes or the number of blocks have grown beyond the tolerance",
    )
    group.add_argument(
        "--tolerance",
        metavar="SHARE",
        help="allowed growth: a share, such as 5%%, or a size, such as 64KiB, which allows no "
        "growth of the number of blocks (default: 1%%)",
    )
    group.add_argument(
        "--markdown", metavar="FILE", help="write a Markdown table for a pull request to FILE"
    )
    group.add_argument("--force", action="store_true", help="overwrite existing files")


def run(arguments: argparse.Namespace) -> int:
    """Run `pgmo check`."""
    for name, option in (
        ("against", "--against"),
        ("markdown", "--markdown"),
        ("profile", "PROFILE"),
    ):
        if getattr(arguments, name) == "":
            raise OptionError(f"{option} is empty; name a file, or leave it out")
    if arguments.against is not None:
        if arguments.profile is not None:
            _refuse("PROFILE cannot be used together with --against")
        return _compare(arguments)
    for name in ("tolerance", "markdown"):
        if getattr(arguments, name) is not None:
            _refuse(f"--{name} cannot be used without --against")
    return _check(arguments)


def _refuse(why: str) -> None:
    raise OptionError(f"{why}; see pgmo check --help")


def _check(arguments: argparse.Namespace) -> int:
    from pgmo.packing.audit import audit
    from pgmo.packing.plan_file import read_plan

    plan = read_plan(Path(arguments.plan), check=False)
    profile = read_profile(Path(arguments.profile)) if arguments.profile else None
    checks = audit(plan, profile)
    failed = sum(not check.passed for check in checks)
    if arguments.json:
        print_json(
            {
                "file": arguments.plan,
                "profile": arguments.profile,
                "arena": plan.arena,
                "passed": not failed,
                "checks": [asdict(check) for check in checks],
            }
        )
        return CHECK_FAILED if failed else 0
    for check in checks:
        verdict = "ok    " if check.passed else "FAILED"
        where = f" of {check.plan}" if check.plan else ""
        print(f"{verdict}  {check.name}{where}: {check.detail}")
    print(f"{arguments.plan}: {f'{failed} of {len(checks)} checks FAILED' if failed else 'valid'}")
    if failed:
        if arguments.profile:
            again = ("pgmo plan", arguments.profile, "-o", arguments.plan, "--force")
            print_wrote([], as_command(*again))
        return CHECK_FAILED
    print_wrote([], as_command("pgmo run --plan", arguments.plan, "train.py"))
    return 0


def _compare(arguments: argparse.Namespace) -> int:
    from pgmo.report.gate.gate import compare_states
    from pgmo.report.gate.tolerance import Tolerance
    from pgmo.report.gate.words import markdown_lines, text_lines

    text = arguments.tolerance
    tolerance = Tolerance() if text is None else Tolerance.read(text)
    written = [arguments.markdown] if arguments.markdown else []
    for path in written:
        refuse_our_suffix(path, "the table for a pull request", ".md")
    sources = (arguments.plan, arguments.against)
    check_targets(written, force=arguments.force, sources=sources)
    gate = compare_states(Path(arguments.plan), Path(arguments.against), tolerance)
    for path in written:
        text = "\n".join(markdown_lines(gate)) + "\n"
        # A file name that is not UTF-8 contains lone surrogates.
        replace_file(Path(path), text.encode(errors="replace"))
    if arguments.json:
        print_json({"file": arguments.plan, "against": arguments.against, **_fields(gate)})
    else:
        print("\n".join(text_lines(gate)))
    print_wrote(written)
    return 0 if gate.passed else CHECK_FAILED


def _fields(gate: "Gate") -> dict[str, object]:
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
        "tolerance": str(gate.tolerance),
        "passed": gate.passed,
        "programs": programs,
        "new": list(gate.new),
        "gone": list(gate.gone),
    }
