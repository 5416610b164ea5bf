"""Check a plan, alone or against its profile; or check that memory has not grown.

Checks each plan in the file: no two live blocks may overlap, and the max load, the bound and the
fingerprint in the file must be right for its blocks. With PROFILE, plan and profile must have the
same blocks.

With --against, compares a profile or plan, or all in a folder, with an earlier state: max load,
arena, persistent bytes and number of blocks must not have grown by more than the tolerance. For
profiles, also lists the modules and operators that have grown.

Exit code 3: a check failed, or memory has grown; 1: a file cannot be read.
"""

import argparse
from pathlib import Path

from pgmo.cli.exit_codes import CHECK_FAILED
from pgmo.cli.gate import add_gate_arguments, misplaced, run_gate
from pgmo.errors import OptionError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `pgmo check`."""
    parser.add_argument(
        "plan", metavar="PLAN", help="a .pgmoplan file; with --against also a profile, or a folder"
    )
    parser.add_argument(
        "profile", metavar="PROFILE", nargs="?", help="the profile that the plan was made from"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    add_gate_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run `pgmo check`."""
    wrong = misplaced(arguments)
    if wrong:
        together = "together with" if arguments.against is not None else "without"
        raise OptionError(f"{wrong} cannot be used {together} --against; see pgmo check --help")
    if arguments.against is not None:
        return run_gate(arguments)
    from dataclasses import asdict

    from pgmo.cli.source import read_profile
    from pgmo.cli.terminal.output import as_command, print_json, print_wrote
    from pgmo.packing.audit import audit
    from pgmo.packing.plan_file import read_plan

    plan = read_plan(Path(arguments.plan), check=False)
    profile = read_profile(Path(arguments.profile)) if arguments.profile else None
    checks = audit(plan, profile)
    passed = all(check.passed for check in checks)
    if arguments.json:
        print_json(
            {
                "file": arguments.plan,
                "profile": arguments.profile,
                "arena": plan.arena,
                "passed": passed,
                "checks": [asdict(check) for check in checks],
            }
        )
        return 0 if passed else CHECK_FAILED
    for check in checks:
        verdict = "ok    " if check.passed else "FAILED"
        where = f" of {check.plan}" if check.plan else ""
        print(f"{verdict}  {check.name}{where}: {check.detail}")
    failed = sum(not check.passed for check in checks)
    print(f"{arguments.plan}: {f'{failed} of {len(checks)} checks FAILED' if failed else 'valid'}")
    if failed:
        if arguments.profile:
            again = ("pgmo plan", arguments.profile, "-o", arguments.plan, "--force")
            print_wrote([], as_command(*again))
        return CHECK_FAILED
    print_wrote([], as_command("pgmo run --plan", arguments.plan, "train.py"))
    return 0
