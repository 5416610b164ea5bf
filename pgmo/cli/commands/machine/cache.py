"""Show what pgmo keeps in the cache folder, and clear it.

adapters  compiled adapters and the stub runtime; compiled again when needed
steps     captured steps of pgmo.recompute(keep=True); captured again when needed

Profiles and plans are where you have saved them, and not in it. After `pgmo cache --clear` and
`pip uninstall pgmo` nothing of pgmo is left.
"""

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `pgmo cache`."""
    parser.add_argument(
        "--clear",
        nargs="?",
        const="all",
        choices=("all", "adapters", "steps"),
        help="remove these files (default: all)",
    )
    parser.add_argument("--json", action="store_true", help="print one object, no text")


def run(arguments: argparse.Namespace) -> int:
    """Runs `pgmo cache`."""
    from pgmo.cli.terminal.output import as_command, print_json, print_wrote
    from pgmo.doctor.kept import KINDS, clear, look_at_kept
    from pgmo.files.cache_folder import cache_directory
    from pgmo.units import format_bytes

    wanted = arguments.clear
    if wanted is None:
        found = look_at_kept()
    else:
        found = clear(tuple(KINDS) if wanted == "all" else (wanted,))
    if arguments.json:
        rows = [{"kind": one.kind, "files": one.files, "bytes": one.size} for one in found]
        told = {"folder": str(cache_directory()), "cleared": wanted is not None, "kinds": rows}
        print_json(told)
        return 0
    print(f"cache       {cache_directory()}")
    for one in found:
        gone = "removed " if wanted is not None else ""
        print(f"{one.kind:<10}  {gone}{one.files} files, {format_bytes(one.size)}")
    if wanted is None and any(one.files for one in found):
        print_wrote([], as_command("pgmo cache", "--clear"))
    return 0
