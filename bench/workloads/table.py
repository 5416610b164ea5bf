"""Markdown tables of bench/details.md, from the results of `fakecuda_memory.py`."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from workloads.columns import HEADS, NAMES, USUAL_COSTS, Row, cost_cells, cost_heads, markdown
from workloads.sekiyama import TITLES as SEKIYAMA

LENGTHS = {
    ("gpt", "fixed"): "512 tokens",
    ("gpt", "bucket"): "6 lengths, 128 to 1,024",
    ("gpt", "any"): "any length, 64 to 1,024",
    ("gpt", "grow"): "growing from 64 to 1,024",
    ("seq2seq", "fixed"): "50 tokens",
    ("seq2seq", "bucket"): "6 lengths, 16 to 64",
    ("seq2seq", "any"): "any length, 8 to 64",
}
NETWORKS = {
    "gpt": "GPT-2 medium",
    "resnet": "ResNet-50",
    "unet": "U-Net",
    "seq2seq": "LSTM seq2seq",
    **{f"sekiyama.{name}": title for name, title in SEKIYAMA.items()},
}

Found = dict[str, Row]
"""Rows of one workload by their allocator."""


def tables(result: Mapping[str, Any]) -> str:
    """Return the tables of peaks and of largest batches, if the result has them."""
    rows, batches = result["rows"], result["largest_batch"]
    parts = []
    if rows and rows[0]["network"].startswith("sekiyama."):
        parts.append(_reductions(rows))
    elif rows:
        parts.append(_efficiencies(rows))
    if batches:  # CPU times are left out, because batches differ
        name = "network" if batches[0]["network"].startswith("sekiyama.") else "workload"
        parts.append(
            _table(batches, [name], _title, lambda row: f"{row['batch']:,}", USUAL_COSTS[:3])
        )
    return "\n\n".join(parts)


def _efficiencies(rows: list[Row]) -> str:
    def first(found: Found) -> list[str]:
        live = next(iter(found.values())).get("live")
        return [*_title(found), f"{live / 2**30:.1f} GiB" if live is not None else ""]

    heads = ["workload", "live peak"]
    return _table(rows, heads, first, lambda row: f"{row['efficiency']:.3f}", USUAL_COSTS)


def _reductions(rows: list[Row]) -> str:
    """Return peaks, and the shares of the default allocator's peak that are saved."""
    ours = [name for name in NAMES if any(row["allocator"] == name for row in rows)]

    def live(found: Found) -> int:
        return next((row["live"] for row in found.values() if "live" in row), 0)

    def first(found: Found) -> list[str]:
        some = next(iter(found.values()))
        mode = "training" if some["train"] else "inference"
        return [*_title(found), mode, str(some["batch"]), _gib(live(found))]

    def last(found: Found) -> list[str]:
        default = found.get("default", {}).get("reserved")
        peaks = [*(found.get(name, {}).get("reserved") for name in ours), live(found)]
        return [f"{1 - peak / default:.1%}" if peak and default else "" for peak in peaks]

    return _table(
        rows,
        ["network", "", "batch", "live"],
        first,
        lambda row: _gib(row["reserved"]),
        USUAL_COSTS,
        [*(f"{HEADS[name]}, reduction" for name in ours), "bound"],
        last,
    )


def _table(
    rows: Iterable[Row],
    heads: list[str],
    first: Callable[[Found], list[str]],
    cell: Callable[[Row], str],
    costs: Iterable[str],
    last_heads: Iterable[str] = (),
    last: Callable[[Found], list[str]] = lambda found: [],
) -> str:
    """Return a table with a line per workload, and a column per allocator and cost.

    Args:
        rows: rows of a result.
        heads: heads of the columns before the allocators'.
        first: returns a workload's cells in these columns.
        cell: returns the cell of an allocator.
        costs: keys of `workloads.columns.COSTS`.
        last_heads: heads of the columns between those of allocators and of costs.
        last: returns a workload's cells in these columns.
    """
    workloads: dict[tuple[Any, ...], Found] = {}
    for row in rows:
        batch = row["batch"] if last_heads else None
        key = row["network"], row["lengths"], row["recompute"], row["train"], batch
        workloads.setdefault(key, {})[row["allocator"]] = row
    columns = [name for name in HEADS if any(name in found for found in workloads.values())]
    ours = [name for name in columns if name in NAMES]
    lines = [[*heads, *(HEADS[name] for name in columns), *last_heads, *cost_heads(ours, costs)]]
    for found in workloads.values():
        cells = [_cell(found.get(name), cell) for name in columns]
        rows_of = {name: [row] for name, row in found.items()}
        lines.append([*first(found), *cells, *last(found), *cost_cells(rows_of, ours, costs)])
    return markdown(lines)


def _title(found: Found) -> list[str]:
    some = next(iter(found.values()))
    recomputed = "recomputation" if some["recompute"] else ""
    parts = [NETWORKS[some["network"]], LENGTHS.get((some["network"], some["lengths"])), recomputed]
    return [", ".join(filter(None, parts))]


def _cell(row: Row | None, cell: Callable[[Row], str]) -> str:
    if row is None:
        return ""
    if "failed" in row:
        return "failed"
    return "out of memory" if row.get("out_of_memory") else cell(row)


def _gib(size: int) -> str:
    return f"{size / 2**30:.2f} GiB"
