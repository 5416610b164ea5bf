"""Markdown tables of bench/details.md, from the results of `fakecuda_memory.py`."""

from collections.abc import Iterable, Mapping
from typing import Any

from workloads.columns import (
    HEADS,
    NAMES,
    USUAL_COSTS,
    Row,
    cost_cells,
    cost_heads,
    markdown,
)

AT_LARGEST = USUAL_COSTS[:3]
"""Costs at the largest batch, without CPU times, because batches differ."""

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
}


def tables(result: Mapping[str, Any]) -> str:
    """Return the tables of efficiencies and of largest batches, if the result has them."""
    parts = []
    if result["rows"]:
        parts.append(_table(result["rows"], _efficiency, USUAL_COSTS, "live peak", _live))
    if result["largest_batch"]:
        parts.append(_table(result["largest_batch"], _batch, AT_LARGEST))
    return "\n\n".join(parts)


def _table(
    rows: Iterable[Row],
    cell: Any,
    costs: Iterable[str],
    extra: str = "",
    extra_cell: Any = None,
) -> str:
    """Return a table with a line per workload, and a column per allocator and cost."""
    workloads: dict[tuple[str, str, bool], dict[str, Row]] = {}
    for row in rows:
        key = row["network"], row["lengths"], row["recompute"]
        workloads.setdefault(key, {})[row["allocator"]] = row
    columns = [name for name in HEADS if any(name in found for found in workloads.values())]
    ours = [name for name in columns if name in NAMES]
    head = ["workload", *([extra] if extra else []), *(HEADS[name] for name in columns)]
    lines = [[*head, *cost_heads(ours, costs)]]
    for (network, lengths, recompute), found in workloads.items():
        title = ", ".join(
            part
            for part in (
                NETWORKS[network],
                LENGTHS.get((network, lengths), ""),
                "recomputation" if recompute else "",
            )
            if part
        )
        first = [extra_cell(next(iter(found.values())))] if extra else []
        cells = [cell(found[name]) if name in found else "" for name in columns]
        rows_of = {name: [row] for name, row in found.items()}
        lines.append([title, *first, *cells, *cost_cells(rows_of, ours, costs)])
    return markdown(lines)


def _live(row: Row) -> str:
    return f"{row['live'] / 2**30:.1f} GiB" if "live" in row else ""


def _efficiency(row: Row) -> str:
    if "failed" in row:
        return "failed"
    return "out of memory" if row["out_of_memory"] else f"{row['efficiency']:.3f}"


def _batch(row: Row) -> str:
    return "failed" if "failed" in row else str(row["batch"])
