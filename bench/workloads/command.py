"""The command that results tell of."""

import argparse


def without_paths(arguments: list[str]) -> list[str]:
    """The arguments without those that are about this machine only."""
    kept = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for names in (("--python",), ("--stub",), ("-o", "--output")):
        kept.add_argument(*names)
    return kept.parse_known_args(arguments)[1]
