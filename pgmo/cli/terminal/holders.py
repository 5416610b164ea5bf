"""Tables of who holds the memory at the peak."""

from collections.abc import Mapping
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


def print_holders(out: "Console", peak: Mapping[str, Any]) -> None:
    """Prints the phases, modules, operators and lines whose blocks are alive at the peak.

    Lines of code and streams only where they tell blocks apart.

    Args:
        out: where to print.
        peak: fields of a `pgmo.report.findings.attribution.Peak`.
    """
    from rich.table import Table
    from rich.text import Text

    out.print(
        f"peak        {peak['blocks']} blocks, {format_bytes(peak['size'])} at tick {peak['tick']}",
        markup=False,
    )
    for heading, kind in _LISTS.items():
        if kind in ("files", "streams") and len(peak[kind]) < 2:
            continue
        table = Table("size", "share", "blocks", heading)
        for column in table.columns[:3]:
            column.justify = "right"
        for holder in peak[kind]:
            share = holder["size"] / peak["size"]
            cells = (format_bytes(holder["size"]), f"{share:.1%}", str(holder["blocks"]))
            table.add_row(*cells, Text(holder["name"]))
        if table.row_count:
            out.print(table)
