"""Markdown tables of bench/details.md, from the results of `sekiyama.py`."""

from collections.abc import Callable, Mapping
from typing import Any

from workloads.columns import HEADS, USUAL_COSTS, Row, cost_cells, cost_heads, markdown
from workloads.job import OURS
from workloads.sekiyama import TITLES


def tables(result: Mapping[str, Any]) -> str:
    """Return the tables of peaks and of largest batches, if the result has them."""
    parts = []
    if result["rows"]:
        parts.append(memory(result["rows"]))
    if result["largest_batch"]:
        parts.append(batches(result["largest_batch"]))
    return "\n\n".join(parts)


def memory(rows: list[Row]) -> str:
    """Return the table of peaks, one line per network, mode and batch."""
    columns = columns_of(rows)
    ours = [name for name in columns if name in OURS]
    reductions = [f"{HEADS[name]}, reduction" for name in ours]
    head = ["network", "", "batch", "live", *(HEADS[name] for name in columns)]
    lines = [[*head, *reductions, "bound", *cost_heads(ours)]]
    cases: dict[tuple[str, bool, int], dict[str, Row]] = {}
    for row in rows:
        key = row["network"], row["train"], row["batch"]
        cases.setdefault(key, {})[row["allocator"]] = row
    for (network, train, batch), found in cases.items():
        default = found.get("default")
        live = next((row["live"] for row in found.values() if "live" in row), 0)
        line = [_title(network), "training" if train else "inference", str(batch), gib(live)]
        line += [_peak(found.get(name)) for name in columns]
        reduced = [_reduction(found.get(name), default) for name in ours]
        costs = cost_cells({name: [row] for name, row in found.items()}, ours)
        lines.append([*line, *reduced, _reduction({"reserved": live}, default), *costs])
    return markdown(lines)


def columns_of(rows: list[Row]) -> list[str]:
    """Return the allocators of the rows, in the order of the table."""
    found = {row["allocator"] for row in rows}
    return [name for name in HEADS if name in found]


def batches(rows: list[Row]) -> str:
    """Return the table of largest batches, without CPU times, because batches differ."""
    columns, costs = columns_of(rows), USUAL_COSTS[:3]
    ours = [name for name in columns if name in OURS]
    lines = [["network", *(HEADS[name] for name in columns), *cost_heads(ours, costs)]]
    for network in dict.fromkeys(row["network"] for row in rows):
        found = {row["allocator"]: row for row in rows if row["network"] == network}
        cells = [_cell(found.get(name), _batch) for name in columns]
        rows_of = {name: [row] for name, row in found.items()}
        lines.append([_title(network), *cells, *cost_cells(rows_of, ours, costs)])
    return markdown(lines)


def gib(size: int) -> str:
    """Return bytes as GiB with two decimals."""
    return f"{size / 2**30:.2f} GiB"


def _title(network: str) -> str:
    return TITLES[network.rpartition(".")[2]]


def _peak(row: Row | None) -> str:
    return _cell(row, lambda one: gib(one["reserved"]))


def _batch(row: Row) -> str:
    return f"{row['batch']:,}"


def _cell(row: Row | None, text: Callable[[Row], str]) -> str:
    if row is None:
        return ""
    if "failed" in row:
        return "failed"
    return "out of memory" if row.get("out_of_memory") else text(row)


def _reduction(row: Row | None, default: Row | None) -> str:
    if row is None or default is None or "reserved" not in row or "reserved" not in default:
        return ""
    return f"{1 - row['reserved'] / default['reserved']:.1%}"
