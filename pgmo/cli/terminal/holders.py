"""Tables of who holds the memory at the peak."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pgmo.units import format_bytes

if TYPE_CHECKING:
    from rich.console import Console

_LISTS = {
    "phase": "phases",
    "module": "modules",
    "operator": "operators",
    "line": "files",
    "stream": "streams",
}


def print_holders(out: "Console", peak: Mapping[str, Any], *, is_moment: bool = False) -> None:
    """Prints the phases, modules, operators and lines whose blocks are alive at the peak.

    Lines of code and streams only where they tell blocks apart.

    Args:
        out: where to print.
        peak: fields of a `pgmo.report.findings.attribution.Peak`.
        is_moment: whether it is all that was allocated at the one moment that is known.
    """
    if not is_moment:
        out.print(
            f"peak        {peak['blocks']} blocks, {format_bytes(peak['size'])} at tick "
            f"{peak['tick']}",
            markup=False,
        )
    for heading, kind in _LISTS.items():
        if kind not in ("files", "streams") or len(peak[kind]) > 1:
            print_held(out, heading, peak[kind], peak["size"])


def print_held(
    out: "Console", heading: str, holders: Iterable[Mapping[str, Any]], whole: int
) -> None:
    """Prints who holds how many of so many bytes: fields of `attribution.Holder`."""
    rows = [
        (format_bytes(one["size"]), f"{one['size'] / whole:.1%}", str(one["blocks"]), one["name"])
        for one in holders
    ]
    print_table(out, ("size", "share", "blocks", heading), rows)


def print_table(out: "Console", headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Prints figures, and behind them a text as it is; nothing where there are no rows."""
    from rich.table import Table
    from rich.text import Text

    table = Table(*headings)
    for column in table.columns[:-1]:
        column.justify = "right"
    for *figures, text in rows:
        table.add_row(*figures, Text(text))
    if table.row_count:
        out.print(table)
