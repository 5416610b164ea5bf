"""Tables of the holders of the peak."""

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
    """Print the phases, modules, operators, lines and streams whose blocks are alive at the peak.

    Lines of code and streams are printed only if there are several.
    """
    if not is_moment:
        out.print(
            f"peak        {peak['blocks']} blocks, {format_bytes(peak['size'])} at tick "
            f"{peak['tick']}"
        )
    for heading, kind in _LISTS.items():
        if kind not in ("files", "streams") or len(peak[kind]) > 1:
            print_held(out, heading, peak[kind], peak["size"])


def print_held(
    out: "Console", heading: str, holders: Iterable[Mapping[str, Any]], whole: int
) -> None:
    """Print holders (fields of `attribution.Holder`), with their shares of `whole` bytes."""
    rows = [
        (format_bytes(one["size"]), f"{one['size'] / whole:.1%}", str(one["blocks"]), one["name"])
        for one in holders
    ]
    print_table(out, ("size", "share", "blocks", heading), rows)


def print_table(out: "Console", headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows of figures, each with a text in the last column. Print nothing without rows."""
    from rich.table import Table
    from rich.text import Text

    table = Table(*headings)
    for column in table.columns[:-1]:
        column.justify = "right"
    for *figures, text in rows:
        table.add_row(*figures, Text(text))
    if table.row_count:
        out.print(table)
