"""Generator of bench/README.md: what pgmo gains, what it costs, where it is behind.

    python bench/support/summary.py --write

All figures come from bench/results, so a new measurement changes the page.
"""

import argparse
import json
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BENCH = Path(__file__).parents[1]
RESULTS = BENCH / "results"
PAGE = BENCH / "README.md"

SAME_RUN = ("loop", "program", "network", "lengths", "world", "batch", "seed", "iterations")
"""Fields of a row that identify its run. They are equal for all contenders of a run."""

FLAGS = {"lag": "streams lag", "recompute": "recomputed", "train": "training"}
"""Boolean fields of a row that identify its run, and their names on the page."""

PEERS = ("default", "expandable")
SESSIONS = ("pgmo_run", "pgmo", "pgmo_saved_plan")
SAME = 0.003
"""Relative difference of two peaks up to which they count as equal."""

SLOWER = 1.1
"""Ratio of times above which a figure without a goal is marked as missed."""

MEMORY = {
    "never_worse": "24 training and inference loops, three seeds, 24 iterations",
    "never_worse_short": "24 training and inference loops, 3 to 12 iterations",
    "real_programs_stub": "unchanged programs of other projects",
    "fakecuda_memory": "large networks",
    "fakecuda_ranks": "ranks of DDP, FSDP2, pipelines and others",
    "sekiyama": "the networks of Sekiyama et al. 2018",
    "private_pools": "programs with CUDA graphs and memory pools",
    "gpu/memory": "large networks on a GPU",
    "gpu/ranks": "one rank of DDP and FSDP2 on a GPU",
    "gpu/real_programs": "unchanged programs of other projects on a GPU",
}
"""Title of each result with peaks of memory."""

BATCHES = {
    "fakecuda_memory": "16 GiB",
    "sekiyama": "16 GiB",
    "gpu/largest_batch": "16 GiB of a GPU",
    "gpu/sekiyama": "16 GiB of a GPU",
}
"""Card of each result with largest batches."""


@dataclass(frozen=True)
class Run:
    """Peaks of one run.

    Args:
        name: name of the run.
        peaks: peak in bytes of each contender.
    """

    name: str
    peaks: Mapping[str, int]

    @property
    def better_peer(self) -> int | None:
        """Lower peak of PyTorch's two allocators, in bytes; None if neither was measured."""
        return min((self.peaks[one] for one in PEERS if one in self.peaks), default=None)

    def behind(self) -> Iterator[tuple[str, float]]:
        """Yield sessions above the lower peak of PyTorch's allocators, and their ratios to it."""
        peer = self.better_peer
        for one in SESSIONS:
            if peer and self.peaks.get(one, 0) > (1 + SAME) * peer:
                yield one, self.peaks[one] / peer


def load(name: str) -> dict[str, Any]:
    """Read a result file."""
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return found


def runs(result: Mapping[str, Any]) -> list[Run]:
    """Return the runs of a result that have a session's peak. Rows that failed are left out."""
    groups: dict[str, dict[str, int]] = defaultdict(dict)
    for row in _rows(result):
        peak = row.get("peak") or row.get("reserved")
        if peak and not row.get("out_of_memory") and not row.get("error"):
            groups[_name(row)][row.get("contender") or row["allocator"]] = peak
    return [Run(name, peaks) for name, peaks in groups.items() if peaks.keys() & set(SESSIONS)]


def _name(row: Mapping[str, Any]) -> str:
    """Return the name of the run of a row."""
    parts = []
    for field in SAME_RUN:
        value = row.get(field)
        if isinstance(value, str):
            parts.append(value.replace("_", " "))
        elif value is not None and "steps" not in row:
            parts.append(f"{field} {value}")
    return ", ".join([*parts, *(said for field, said in FLAGS.items() if row.get(field))])


def _rows(result: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the rows of a result. Results of GPUs group rows by workload or program."""
    if "rows" in result:
        yield from result["rows"]
        return
    for entry in result["entries"]:
        name = entry.get("workload") or entry.get("program") or entry.get("engine")
        yield from ({**row, "program": name} for row in entry["rows"])


def ratio(found: Iterable[Run], one: str, other: str) -> str:
    """Return median, minimum and maximum of the ratio of two contenders' peaks as text."""
    ratios = [
        run.peaks[one] / run.peaks[other]
        for run in found
        if one in run.peaks and other in run.peaks
    ]
    if not ratios:
        return ""
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def memory_table() -> Iterator[str]:
    """Yield the lines of the table of peaks, compared with each other allocator."""
    yield "| what ran | runs | of default | of expandable segments | of pages alone | behind |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for name, title in MEMORY.items():
        found = runs(load(name))
        session = next(one for one in SESSIONS if any(one in run.peaks for run in found))
        cells = [ratio(found, session, one) for one in (*PEERS, "pages")]
        compared = [run for run in found if run.better_peer]
        behind = sum(any(run.behind()) for run in compared)
        kept = [title, str(len(found)), *cells, f"{behind} of {len(compared)}"]
        yield f"| {' | '.join(kept)} |"


def batch_table() -> Iterator[str]:
    """Yield the lines of the table of largest batches."""
    yield "| network | card | bound | default | expandable segments | pages alone | pgmo |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for name, card in BATCHES.items():
        for network, batches in _batches(load(name)).items():
            best = max((batches.get(one, 0) for one in SESSIONS), default=0)
            others = [str(batches.get(one, "")) for one in ("bound", *PEERS, "pages")]
            if best:
                yield f"| {' | '.join([network, card, *others, str(best)])} |"


def _batches(result: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = defaultdict(dict)
    for row in result.get("largest_batch", ()):
        named = [row["network"], row["lengths"], "recomputed" if row["recompute"] else ""]
        found[", ".join(filter(None, named))][row["allocator"]] = row["batch"]
    for row in result.get("entries", ()):
        if row.get("largest"):
            found[row["workload"]] |= {row["contender"]: row["largest"], "bound": row["bound"]}
    return found


@dataclass(frozen=True)
class Cost:
    """Figure with a goal.

    Args:
        what: name of the figure.
        figure: value in the unit.
        unit: unit of figure and goal.
        goal: largest figure that reaches the goal; None without a goal.
    """

    what: str
    figure: float
    unit: str
    goal: float | None

    @property
    def missed(self) -> bool:
        """Return whether the figure is above its goal, or above `SLOWER` if it has none."""
        return self.figure > (SLOWER if self.goal is None else self.goal)


def costs() -> Iterator[Cost]:
    """Yield all figures of time."""
    for name, ran in (("never_worse", "24 iterations"), ("real_programs_stub", "whole programs")):
        for contender in ("pages", "pgmo", "pgmo_run"):
            over = [
                row["cpu_over_default"]
                for row in load(name)["rows"]
                if row.get("contender") == contender and row.get("cpu_over_default")
            ]
            if over:
                what = f"host CPU of {ran}, {contender}"
                yield Cost(f"{what}, median", statistics.median(over), "of the default's", 1.1)
                yield Cost(f"{what}, most", max(over), "of the default's", 1.3)
    claims = load("engine")["claims"]
    pair, recording = claims["replay_pair_ns"], claims["recording_adds_ns"]
    growth, pages = claims["growth_from_fewest_blocks"], claims["with_pages_over_without"]
    yield Cost("request and free from a slot", pair["figure"], "ns", pair["at_most"])
    yield Cost("recording it", recording["figure"], "ns more", recording["at_most"])
    yield Cost(
        "1,000,000 blocks", growth["figure"], "of the time with 1,000 blocks", growth["at_most"]
    )
    yield Cost("slots in pages", pages["figure"], "of the time without", pages["at_most"])
    for row in load("gpu/overhead")["rows"]:
        if row["allocator"] in ("pgmo", "pages", "record"):
            what = f"on a GPU: {row['what']}, {row['allocator']}"
            yield Cost(what, row["against_default"], "of the default's time", row["goal"])
    planning = max(row["share"] for row in load("planning")["rows"])
    yield Cost("planning, in 100 iterations on the CPU", planning, "of their time", 0.01)
    for name, found in load("gpu/cupy_loops")["figures"].items():
        took, pools = found["pgmo"]["seconds_per_step"], found["cupy"]["seconds_per_step"]
        yield Cost(f"on a GPU: a step of CuPy, {name}", took / pools, "of its pool's time", 1.0)


def cost_table() -> Iterator[str]:
    """Yield the lines of the table of costs."""
    yield "| what | pgmo | goal |"
    yield "| --- | --- | --- |"
    for cost in costs():
        goal = "" if cost.goal is None else f"{cost.goal:g}"
        mark = " (!)" if cost.missed else ""
        yield f"| {cost.what} | {cost.figure:.3g} {cost.unit}{mark} | {goal} |"


def behind_lines() -> Iterator[str]:
    """Yield the lines of the table of runs above the better of PyTorch's allocators."""
    yield "| what ran | run | contender | of the better peer |"
    yield "| --- | --- | --- | --- |"
    for name, title in MEMORY.items():
        for run in runs(load(name)):
            for contender, above in run.behind():
                yield f"| {title} | {run.name} | {contender} | {above:.3f} |"


def page() -> str:
    """Return the page in Markdown."""
    dates = [load(name)["date"][:10] for name in (*MEMORY, "engine", "planning")]
    parts = [
        "# What pgmo gains, what it costs, where it is behind",
        "Written by `python bench/support/summary.py --write` from `results/`, measured from "
        f"{min(dates)} to {max(dates)}.\nThe method and the tables of each script are in "
        "[details.md](details.md).",
        "## What it gains",
        "Peaks of whole runs, including the first iteration: median (lowest to highest) of the "
        "ratio of pgmo's peak to the\nother allocator's peak. The column *behind* counts runs in "
        "which `pgmo run` or `pgmo.optimize()` takes more than the\n"
        f"better of PyTorch's two allocators, by more than {SAME:.1%}.",
        "\n".join(memory_table()),
        "The largest batch that trains. *Bound* is the largest batch whose live bytes alone fit on "
        "the card.",
        "\n".join(batch_table()),
        "## What it costs",
        "(!) marks figures above their goal, and figures above 1.1 that have no goal.",
        "\n".join(cost_table()),
        "## Where it is behind",
        "Runs that take more memory than the better peer. The section on costs marks times.",
        "\n".join(behind_lines()),
    ]
    return "\n\n".join(parts) + "\n"


def main() -> None:
    """Print the page, or write it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="to README.md")
    if parser.parse_args().write:
        PAGE.write_text(page(), encoding="utf-8")
    else:
        print(page(), end="")


if __name__ == "__main__":
    main()
