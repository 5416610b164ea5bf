"""Write a report of a profile: one HTML page with every block's lifetime and offset.

The page needs no network and no server: open it in a browser, or send it to someone. Without
--plan, the page shows the .pgmoplan file next to the profile, if it is a plan of this profile.
Otherwise the page shows a plan that the fast packers make.
"""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pgmo.cli.source import read_profile
from pgmo.cli.targets import check_targets, next_to, refuse_our_suffix
from pgmo.cli.terminal.output import as_command, print_json, print_wrote
from pgmo.errors import OptionError, PgmoError
from pgmo.files.replacement import replace_file
from pgmo.terminal import print_message

if TYPE_CHECKING:
    from pgmo.packing.plan import Plan
    from pgmo.profiler.profile import Profile

_FAST_PLAN = "The page shows a plan of the fast packers"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `pgmo report`."""
    parser.add_argument("profile", metavar="PROFILE", help="a profile, snapshot, log or table")
    parser.add_argument(
        "--plan",
        metavar="PLAN",
        help="plan of the profile (default: the .pgmoplan file next to it)",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="HTML",
        help="output file, - for stdout (default: the profile's name with .html, next to it)",
    )
    parser.add_argument("-f", "--force", action="store_true", help="overwrite existing files")
    parser.add_argument("--json", action="store_true", help="print one JSON object about the page")
    parser.add_argument(
        "--title", default="", help="title of the page (default: the model's name, or the file's)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Run `pgmo report`."""
    target = Path(arguments.output or next_to(arguments.profile, ".html"))
    refuse_our_suffix(target, "a report", ".html")
    to_stdout = arguments.output == "-"
    if to_stdout and arguments.json:
        raise OptionError("the page and its --json cannot both go to stdout; name a file with -o")
    sources = [path for path in (arguments.profile, arguments.plan) if path]
    profile = read_profile(Path(arguments.profile))
    if not to_stdout:
        check_targets([target], force=arguments.force, sources=sources)
    text, fields = _page(arguments, profile)
    page = text.encode(errors="replace")  # file names need not be UTF-8
    if to_stdout:
        sys.stdout.write(page.decode())
        return 0
    replace_file(target, page)
    if arguments.json:
        print_json({"file": str(target), "bytes": len(page), **fields})
    opener = "open" if sys.platform == "darwin" else "xdg-open"
    print_wrote([target], as_command(opener, target))
    return 0


def _page(arguments: argparse.Namespace, profile: "Profile") -> tuple[str, dict[str, Any]]:
    """Return the page of one profile, and its fields for `--json`."""
    from pgmo.packing.plan import Plan
    from pgmo.report.findings.pools import find_private_pools
    from pgmo.report.page.html import render
    from pgmo.report.summary import plain

    source = Path(arguments.profile)
    plan = Plan.load(arguments.plan) if arguments.plan else _plan_beside(source, profile)
    title = arguments.title or profile.meta.model or source.stem
    pools = None if profile.trace is None else find_private_pools(profile.trace)
    if pools is not None:
        print_message("\n".join(pools.lines()))
    fields = {
        "blocks": len(profile),
        "max_load": profile.max_load(),
        "arena": None if plan is None else plan.arena,
        "pools": plain(pools),
    }
    return render(profile, plan, title=title), fields


def _plan_beside(source: Path, profile: "Profile") -> "Plan | None":
    """Return the plan next to a profile. Without one, print how to make it, and return None."""
    from pgmo.packing.plan import Plan
    from pgmo.report.page.html import plan_of

    if profile.is_moment:
        return None  # without a history, no plan can be made
    path = source.with_suffix(".pgmoplan")
    again = f"`{as_command('pgmo plan', source)}"
    try:
        plan = Plan.load(path) if path.exists() else None
    except PgmoError as error:
        print_message(f"{error}\n{_FAST_PLAN}; to replace the file, run {again} --force`")
        return None
    if plan is None:
        print_message(f"There is no {path}. {_FAST_PLAN}; to search for a better one, run {again}`")
        return None
    if plan_of(profile, plan) is None:
        print_message(
            f"{path} belongs to another profile. {_FAST_PLAN}; to replace the file, run "
            f"{again} --force`"
        )
        return None
    return plan
