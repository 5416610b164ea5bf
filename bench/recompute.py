"""Recomputation under a budget: `pgmo.recompute` against PyTorch's own ways, in the same run.

    python bench/recompute.py
    python bench/recompute.py --quick        # tiny networks
    python bench/recompute.py --table        # the tables of bench/details.md, from the results

Networks of real depth at reduced width run on the CPU with one thread. Budgets are fractions of the
peak of a step without recomputation. For each budget, the script measures the share of the forward
pass that runs twice, the predicted peak, the peak of allocator events, the time of a step (medians,
interleaved with the plain model), and whether loss, gradients and buffers are bit-identical. The
peers are `activation_memory_budget` with the same compilers, and `torch.utils.checkpoint` around
each block.
"""

import argparse
import os
import sys
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # otherwise each profile prints a message

import torch
from recomputation.step_ways import (
    Bits,
    MemoryBudget,
    Planned,
    Way,
    compare,
    largest_error,
    peak,
    rows_of_process,
)
from recomputation.tables import tables
from support.machine import Seconds, print_earlier, table_parser, write_result
from workloads.step import NAMES, create

import pgmo
from pgmo.recompute.planners.planning import plan_choice
from pgmo.units import format_bytes

FRACTIONS = (0.8, 0.6, 0.5, 0.4)
SWEEP = (0.8, 0.5, 0.3, 0.2, 0.1)
"""Values of `activation_memory_budget`. A lower value does not always give a lower peak."""

FEW = {"gpt_dropout": ((0.5,), (0.5, 0.3))}
"""Fractions and values of the network that is measured only for the bits of its gradients."""


def measure(name: str, repetitions: int, small: bool) -> list[dict[str, Any]]:
    """Measure all ways of one network, and return their rows."""
    model, inputs = create(name, small=small)
    plain = Way("plain", None, model, inputs)
    buffers = [buffer.clone() for buffer in model.buffers()]

    def outcome(way: Way) -> Bits:
        for buffer, before in zip(way.model.buffers(), buffers, strict=True):
            buffer.copy_(before)
        return way.outcome()

    expected = outcome(plain)
    default_peak = peak(plain)
    ways: list[Way] = [plain]
    failed: list[dict[str, Any]] = []
    captured = Planned(model, inputs, None, "capture")
    fractions, values = _settings(name, small)
    for setting in (*fractions, "min"):
        budget = setting if setting == "min" else int(setting * captured.plan.default_peak)
        try:
            ways.append(Planned(model, inputs, budget, setting))
        except pgmo.BudgetError as error:
            failed.append(_row(name, "pgmo", setting) | {"failed": str(error)})
    ways += [MemoryBudget(model, inputs, setting) for setting in values]
    blocks, _ = create(name, recompute=True, small=small)
    ways.append(Way("checkpoint", "each block", blocks, inputs))
    rows = [
        _measured(name, way, outcome(way), expected, default_peak)
        | {"default_predicted": captured.plan.default_peak}
        for way in ways
    ]
    for repetition in range(repetitions):
        for way in ways if repetition % 2 == 0 else reversed(ways):
            way.time()
    for way, row in zip(ways, rows, strict=True):
        row["step_seconds"] = Seconds.of(way.seconds).median
        row["step_seconds_fastest"] = min(way.seconds)
        row["step_seconds_slowest"] = max(way.seconds)
        row["time_against_plain"] = row["step_seconds"] / Seconds.of(plain.seconds).median
        row["fastest_against_plain"] = min(way.seconds) / min(plain.seconds)
        _show(row)
    return rows + failed + list(_without_workspace(name, small))


def _settings(name: str, small: bool) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return fractions of the peak and values of PyTorch's budget; half of them if `small`."""
    fractions, values = FEW.get(name, (FRACTIONS, SWEEP))
    return (fractions[::2], values[::2]) if small else (fractions, values)


def _row(name: str, way: str, setting: object) -> dict[str, Any]:
    return {"network": name, "way": way, "setting": setting}


def _measured(
    name: str, way: Way, outcome: Bits, expected: Bits, default_peak: int
) -> dict[str, Any]:
    """Measure memory and bits of the third step; earlier ones may measure workspaces."""
    way.step()
    found = peak(way)
    row = _row(name, way.name, way.setting) | {
        "peak": found,
        "default_peak": default_peak,
        "peak_share": found / default_peak,
        "share": way.share,
        "same": compare(outcome, expected),
        "largest_relative_error": largest_error(outcome, expected),
    }
    if isinstance(way, Planned):
        plan = way.plan
        row |= {
            "predicted": plan.peak,
            "planner": plan.planner,
            "planning_seconds": way.planning,
            "operations": len(plan.recomputed),
        }
        if isinstance(plan.budget, int):
            row["budget"] = plan.budget
            row["over_budget"] = found / plan.budget - 1
    return row


def _without_workspace(name: str, small: bool) -> Iterator[dict[str, Any]]:
    """Yield rows of plans that ignore the workspaces of operators, as the literature does."""
    model, inputs = create(name, small=small)
    _, plan = pgmo.recompute(model, inputs, budget=None, measure=False)
    for fraction in _settings(name, small)[0]:
        row = _row(name, "pgmo, workspaces not counted", fraction)
        budget = int(fraction * plan.default_peak)
        try:
            found = plan_choice(plan.graph, budget)
        except pgmo.BudgetError as error:
            yield row | {"failed": str(error)}
        else:
            yield row | {"share": found.overhead, "predicted": found.peak, "budget": budget}


def verdicts(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return for each network whether peaks follow the budget, and bits are identical."""
    found = []
    for name in dict.fromkeys(row["network"] for row in rows):
        ours = [row for row in rows if (row["network"], row["way"]) == (name, "pgmo")]
        made = [row for row in ours if "budget" in row and "peak" in row]
        peaks = [row["peak"] for row in sorted(made, key=lambda row: -row["budget"])]
        theirs = [
            row
            for row in rows
            if row["network"] == name and row["way"] == "activation_memory_budget"
        ]
        found.append(
            {
                "network": name,
                "monotone": peaks == sorted(peaks, reverse=True),
                "most_above_budget": max((row["over_budget"] for row in made), default=None),
                "same_bits": all(all(row["same"].values()) for row in ours if "same" in row),
                "activation_memory_budget_monotone": [row["peak"] for row in theirs]
                == sorted((row["peak"] for row in theirs), reverse=True),
                "activation_memory_budget_largest_error": max(
                    (row["largest_relative_error"] for row in theirs), default=None
                ),
            }
        )
    return found


def _show(row: dict[str, Any]) -> None:
    share = "" if row["share"] is None else f"{row['share']:.3f}"
    print(
        f"{row['network']:12}{row['way']:26}{row['setting']!s:12}{format_bytes(row['peak']):>10}"
        f"{row['peak_share']:>7.2f}{share:>7}{row['time_against_plain']:>7.2f}x"
        f"  {'same bits' if all(row['same'].values()) else 'NOT THE SAME BITS'}",
        file=sys.stderr,
        flush=True,
    )


def main() -> None:
    parser = table_parser(__doc__)
    parser.add_argument("--networks", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1, help="networks that are measured at once")
    arguments = parser.parse_args()
    if print_earlier("recompute", arguments, tables):
        return
    torch.set_num_threads(1)
    if len(arguments.networks) == 1:
        warnings.simplefilter("ignore")  # about plans that were made again, which are measured
        rows = measure(arguments.networks[0], arguments.repetitions, arguments.quick)
    else:
        rows = _in_processes(arguments)
    result = {
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "verdicts": verdicts(rows),
        "rows": rows,
    }
    write_result("recompute", result, arguments.output, quick=arguments.quick)
    print(tables(result))


def _in_processes(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Measure each network in a process of its own, and return all rows."""

    def run(name: str) -> list[dict[str, Any]]:
        options = ("--networks", name, "--repetitions", str(arguments.repetitions))
        return rows_of_process(__file__, *options, quick=arguments.quick)

    with ThreadPoolExecutor(arguments.jobs) as pool:
        return [row for rows in pool.map(run, arguments.networks) for row in rows]


if __name__ == "__main__":
    main()
