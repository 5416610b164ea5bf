"""The tables of the README, in Markdown, from the results of `sekiyama.py`."""

from collections.abc import Callable, Mapping
from typing import Any

from workloads.sekiyama import TITLES

ALLOCATORS = {
    "default": "default",
    "expandable": "expandable segments",
    "pgmo": "**pgmo**",
    "pgmo_run": "**pgmo run**",
    "bound": "bound",
}
OURS = ("pgmo", "pgmo_run")

Row = Mapping[str, Any]


def tables(result: Mapping[str, Any]) -> str:
    """Peaks and reductions; largest batches; as far as the result has them."""
    parts = []
    if result["rows"]:
        parts.append(memory(result["rows"]))
    if result["largest_batch"]:
        parts.append(batches(result["largest_batch"]))
    return "\n\n".join(parts)


def memory(rows: list[Row]) -> str:
    """A line for each network, way and batch."""
    columns = [name for name in ALLOCATORS if any(row["allocator"] == name for row in rows)]
    reductions = [f"{ALLOCATORS[name]}, reduction" for name in columns if name in OURS]
    head = ["network", "", "batch", "live", *(ALLOCATORS[name] for name in columns)]
    lines = [[*head, *reductions, "bound"]]
    cases: dict[tuple[str, bool, int], dict[str, Row]] = {}
    for row in rows:
        key = row["network"], row["train"], row["batch"]
        cases.setdefault(key, {})[row["allocator"]] = row
    for (network, train, batch), found in cases.items():
        default = found.get("default")
        live = next((row["live"] for row in found.values() if "live" in row), 0)
        line = [_title(network), "training" if train else "inference", str(batch), gib(live)]
        line += [_peak(found.get(name)) for name in columns]
        reduced = [_reduction(found.get(name), default) for name in columns if name in OURS]
        lines.append([*line, *reduced, _reduction({"reserved": live}, default)])
    return _markdown(lines)


def batches(rows: list[Row]) -> str:
    """A line for each network."""
    columns = [name for name in ALLOCATORS if any(row["allocator"] == name for row in rows)]
    lines = [["network", *(ALLOCATORS[name] for name in columns)]]
    for network in dict.fromkeys(row["network"] for row in rows):
        found = {row["allocator"]: row for row in rows if row["network"] == network}
        lines.append([_title(network), *(_cell(found.get(name), _batch) for name in columns)])
    return _markdown(lines)


def gib(size: int) -> str:
    """With as many digits as tell."""
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


def _markdown(lines: list[list[str]]) -> str:
    lines.insert(1, ["---"] * len(lines[0]))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
