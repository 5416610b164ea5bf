"""Recomputation plans of twenty small steps, against proved optima.

    python bench/recompute_exact.py           # needs OR-Tools; minutes to an hour
    python bench/recompute_exact.py --proved  # minutes: with the graphs and proofs of the results
    python bench/recompute_exact.py --table   # the table of bench/details.md, from the results

The graphs are those of training steps of small modules (`workloads/small_steps.py`), captured as
for `pgmo.recompute`. CP-SAT solves Checkmate's program (`recomputation/checkmate.py`), in which any
operation of the forward pass may run again in any stage. CP-SAT looks for the least peak, and for
the least overhead at four budgets: at the least peak, and at a quarter, half and three quarters of
the way from there to the peak without recomputation. A solution that is not proved within
`--seconds` is stored with its bound. The script also stores the least peak if each operation runs
again at most once, and the results of `plan_choice`. The graphs are in the result, so that a test
can plan for them without a capture.
"""

import json
from typing import Any

from recomputation.checkmate import Optimum, Program
from recomputation.step_graphs import graph_data, read_graph
from support.machine import print_earlier, result_path, table_parser, write_result
from workloads.columns import markdown
from workloads.small_steps import NAMES, create

import pgmo
from pgmo.errors import BudgetError
from pgmo.recompute.planners.evaluator import Choice, Evaluator
from pgmo.recompute.planners.graph import Graph
from pgmo.recompute.planners.planning import plan_choice, propose, rank

SHARES = (0.0, 0.25, 0.5, 0.75)
"""Budgets, as shares of the way from the least peak to the peak without recomputation."""


def captured(name: str) -> Graph:
    """Capture a module, and return the graph that planners get."""
    module, inputs = create(name)
    found: list[Graph] = []

    def planner(graph: Graph, _budget: object) -> Choice:
        found.append(graph)
        return Evaluator(graph).candidate((), "default")

    pgmo.recompute(module, inputs, budget="min", planner=planner)
    return found[0]


def once_each(graph: Graph) -> Choice:
    """Return the choice of the least peak if each operation runs again at most once."""
    evaluator = Evaluator(graph)
    start = min(propose(graph, evaluator), key=lambda one: rank(one, None))
    return evaluator.search(start, None, evaluations=200_000, time_limit=600, seed=0)


def least_found(graph: Graph, optimum: int) -> int:
    """Return the least peak that `plan_choice` reaches, searched upwards from the optimum."""
    for thousandths in (0, 5, 10, 20, 50, 100, 200, 500, 1000):
        try:
            return plan_choice(graph, optimum + optimum * thousandths // 1000).peak
        except BudgetError:
            continue
    return plan_choice(graph, "min").peak


def measure(name: str, seconds: float) -> dict[str, Any]:
    """Measure one graph, and return its row."""
    graph = captured(name)
    default = Evaluator(graph).candidate((), "default").peak
    optimum = Program(graph).least_peak(seconds)
    least = round(optimum.value)
    cells = []
    for share in SHARES:
        budget = int(least + share * (default - least))
        best = Program(graph).least_overhead(budget, seconds)
        cells.append({"share": share, "budget": budget, **_best(best), **_ours(graph, budget)})
    return {
        "name": name,
        "operations": [graph.forward, len(graph.operations) - graph.forward],
        "default_peak": default,
        "least": {
            **_best(optimum),
            "once": once_each(graph).peak,
            "found": least_found(graph, least),
        },
        "cells": cells,
        "graph": graph_data(graph),
    }


def measure_again(row: dict[str, Any]) -> dict[str, Any]:
    """Plan again for a graph whose optima are known, and return its new row."""
    graph, least = read_graph(row["graph"]), row["least"]
    found = {"once": once_each(graph).peak, "found": least_found(graph, round(least["optimum"]))}
    cells = [{**cell, **_ours(graph, cell["budget"])} for cell in row["cells"]]
    return {**row, "least": {**least, **found}, "cells": cells}


def _best(optimum: Optimum) -> dict[str, Any]:
    proved = optimum.value - optimum.bound < 1e-5 * max(1.0, optimum.value)
    return {"optimum": optimum.value, "bound": optimum.bound, "proved": proved}


def _ours(graph: Graph, budget: int) -> dict[str, Any]:
    try:
        return {"overhead": plan_choice(graph, budget).overhead}
    except BudgetError:
        return {"overhead": None}


def table(rows: list[dict[str, Any]]) -> str:
    """Return the table: peaks as shares of the default peak, overheads of the forward pass."""
    head = ["step", "operations", "least peak, once each", "pgmo", "optimum"]
    head += ["overhead at the least", "optimum", "quarter", "optimum", "half", "optimum"]
    lines = []
    for row in rows:
        whole, least = row["default_peak"], row["least"]
        cells = [row["name"], "{} + {}".format(*row["operations"])]
        cells += [f"{least[key] / whole:.3f}" for key in ("once", "found", "optimum")]
        for cell in row["cells"][:3]:
            ours = "-" if cell["overhead"] is None else f"{cell['overhead']:.3f}"
            cells += [ours, f"{cell['optimum']:.3f}" + ("" if cell["proved"] else " *")]
        lines.append(cells)
    text = markdown([head, *lines], right=range(1, len(head)))
    return f"{text}\n\n`*`: the best that CP-SAT found, not proved."


def main() -> None:
    parser = table_parser(__doc__)
    parser.add_argument("--seconds", type=float, default=25, help="for each proof")
    parser.add_argument("--names", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--proved", action="store_true", help="prove nothing anew")
    args = parser.parse_args()
    if print_earlier("recompute_exact", args, lambda found: table(found["rows"])):
        return
    rows = []
    if args.proved:
        known = json.loads(result_path("recompute_exact").read_text(encoding="utf-8"))["rows"]
        for row in known:
            rows.append(measure_again(row))
            print(table(rows[-1:]).splitlines()[2], flush=True)
        write_result("recompute_exact", {"rows": rows}, args.output)
        return
    for name in ["MLP, widening"] if args.quick else args.names:
        rows.append(measure(name, args.seconds))
        print(table(rows[-1:]).splitlines()[2], flush=True)
    write_result("recompute_exact", {"rows": rows}, args.output, quick=args.quick)


if __name__ == "__main__":
    main()
