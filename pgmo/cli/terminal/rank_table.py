"""Output of `pgmo stats DIR`: one row per rank, and the ranks that differ from the others."""

from dataclasses import asdict
from pathlib import Path

from pgmo.cli.terminal.holders import print_table
from pgmo.cli.terminal.output import console, print_json, print_text
from pgmo.report.ranks import FIGURES, find_differences, format_figure, read_ranks

_SHOWN = ("peak_live", "reserved", "stuck", "retries", "from_plan", "growth")


def show_ranks(folder: Path, *, as_json: bool) -> None:
    """Print the figures of the ranks in a directory, as a table or JSON."""
    ranks = read_ranks(folder)
    differences = find_differences(ranks)
    if as_json:
        rows = [
            {"rank": one.rank, "device": one.device, "file": one.file}
            | {name: one.figures[name] for name in FIGURES}
            for one in ranks
        ]
        print_json(
            {
                "directory": str(folder),
                "ranks": rows,
                "differences": [asdict(one) for one in differences],
            }
        )
        return
    out = console()
    odd = {one.rank for one in differences}
    print_table(
        out,
        ("rank", *(name.replace("_", " ") for name in _SHOWN), "file"),
        [
            (
                f"{one.rank} *" if one.rank in odd else str(one.rank),
                *(format_figure(name, one.figures[name]) for name in _SHOWN),
                one.file,
            )
            for one in ranks
        ],
    )
    for difference in differences:
        print_text(out, f"* {difference}")
