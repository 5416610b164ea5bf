"""Write a report of a profile: one HTML page that shows every block at its place.

The page needs no network and no server: open it in any browser, or send it to someone. Without
--plan it shows the plan that lies next to the profile, where `pgmo plan` writes it; if there is
none of this profile, a quick one is made for the picture.
"""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pgmo.errors import FileError, OptionError, PgmoError

if TYPE_CHECKING:
    from pgmo.packing.plan import Plan
    from pgmo.profiler.profile import Profile


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `pgmo report`."""
    parser.add_argument("profile", metavar="PROFILE", help="a .pgmoprof file")
    parser.add_argument(
        "--plan", metavar="PLAN", help="its .pgmoplan file (default: the one next to it)"
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="HTML",
        help="the file to write, - for stdout (default: the profile's name with .html, next to it)",
    )
    parser.add_argument("-f", "--force", action="store_true", help="overwrite what is there")
    parser.add_argument("--json", action="store_true", help="print one object about the page")
    parser.add_argument("--title", default="", help="of the page (default: the model's name)")


def run(arguments: argparse.Namespace) -> int:
    """Runs `pgmo report`."""
    from pgmo.cli.targets import check_targets, next_to, refuse_our_suffix
    from pgmo.cli.terminal.output import as_command, print_json, print_wrote
    from pgmo.packing.plan import Plan
    from pgmo.report.page.html import render, write_report

    source = Path(arguments.profile)
    target = Path(arguments.output or next_to(arguments.profile, ".html"))
    refuse_our_suffix(target, "a report", ".html")
    to_stdout = arguments.output == "-"
    if to_stdout and arguments.json:
        raise OptionError("the page and its --json cannot both go to stdout; name a file with -o")
    profile = _load(source)
    if not to_stdout:
        sources = [path for path in (source, arguments.plan) if path]
        check_targets([target], force=arguments.force, sources=sources)
    plan = Plan.load(arguments.plan) if arguments.plan else _plan_beside(source, profile)
    title = arguments.title or profile.meta.model or source.stem
    if to_stdout:
        page = render(profile, plan, title=title).encode(errors="replace")
        sys.stdout.write(page.decode())
        return 0
    write_report(profile, target, plan=plan, title=title)
    if arguments.json:
        print_json(
            {
                "file": str(target),
                "bytes": target.stat().st_size,
                "blocks": len(profile),
                "max_load": profile.max_load(),
                "arena": None if plan is None else plan.arena,
            }
        )
    opener = "open" if sys.platform == "darwin" else "xdg-open"
    print_wrote([target], as_command(opener, target))
    return 0


def _load(source: Path) -> "Profile":
    from pgmo.cli.terminal.output import as_command
    from pgmo.profiler.profile import Profile

    try:
        return Profile.load(source)
    except FileError as error:
        if source.suffix == ".pgmoprof" or not source.is_file():
            raise
        if source.suffix == ".pgmoplan":
            raise FileError(
                f"{source} is a plan, which knows no origins: give the profile that it was made of "
                f"and `{as_command('--plan', source)}`"
            ) from error
        raise FileError(
            f"{source} is not a profile; make one of a recording with "
            f"`{as_command('pgmo import', source)}`"
        ) from error


def _plan_beside(source: Path, profile: "Profile") -> "Plan | None":
    """The plan next to a profile, if it is of that profile; says so where another is shown."""
    from pgmo.cli.terminal.output import as_command, print_note
    from pgmo.packing.plan import Plan
    from pgmo.report.page.html import plan_of

    path = source.with_suffix(".pgmoplan")
    again = f"`{as_command('pgmo plan', source)}"
    try:
        plan = Plan.load(path) if path.exists() else None
    except PgmoError as error:
        print_note(f"{error}\nThe page shows a quick plan; {again} --force` makes one to keep")
        return None
    if plan is None:
        print_note(f"There is no {path}: the page shows a quick plan; {again}` makes one to keep")
        return None
    if plan_of(profile, plan) is None:
        print_note(
            f"{path} is the plan of another profile: the page shows a quick one; "
            f"{again} --force` makes it again"
        )
        return None
    return plan
