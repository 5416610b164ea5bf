"""Check a plan, and that it belongs to its profile.

No two live blocks may share a byte; the max load, the bound and the fingerprint that the plan
states have to be those of its blocks; with PROFILE, every block has to be the profile's. Plans of
the same program inside of the file are checked like the main one. Exit code 3 when anything is
violated, 1 when a file cannot be read.
"""

import argparse
from pathlib import Path

FAILED = 3
"""Exit code of a check that was made and failed."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `pgmo check`."""
    parser.add_argument("plan", metavar="PLAN", help="a .pgmoplan file")
    parser.add_argument(
        "profile", metavar="PROFILE", nargs="?", help="the .pgmoprof file that it was made from"
    )
    parser.add_argument(
        "--max-memory", metavar="SIZE", help="fail when the arena is larger, such as 16GiB"
    )
    parser.add_argument("--json", action="store_true", help="print one object, no text")


def run(arguments: argparse.Namespace) -> int:
    """Runs `pgmo check`."""
    from dataclasses import asdict

    from pgmo.cli.terminal.output import as_command, print_json, print_wrote
    from pgmo.packing.audit import audit
    from pgmo.packing.plan_file import read_plan
    from pgmo.profiler.profile import Profile
    from pgmo.units import parse_bytes

    allowed = None if arguments.max_memory is None else parse_bytes(arguments.max_memory)
    plan = read_plan(Path(arguments.plan), check=False)
    profile = Profile.load(arguments.profile) if arguments.profile else None
    checks = audit(plan, profile, max_memory=allowed)
    passed = all(check.passed for check in checks)
    if arguments.json:
        print_json(
            {
                "file": arguments.plan,
                "profile": arguments.profile,
                "arena": plan.arena,
                "max_memory": allowed,
                "passed": passed,
                "checks": [asdict(check) for check in checks],
            }
        )
        return 0 if passed else FAILED
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
        return FAILED
    print_wrote([], as_command("pgmo run --plan", arguments.plan, "train.py"))
    return 0
