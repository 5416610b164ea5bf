"""Planners of recomputation on the networks of Kusumoto et al. 2019, in simulation.

    python bench/recompute_planners.py
    python bench/recompute_planners.py --table      # the table of the README, from the results

For each network at the paper's batch, on graphs of its training step (`_paper_networks.py`):

- `program`: the approximate dynamic program with the memory-centric strategy, at its least budget
  and at a few above it, of which the lowest peak counts. The peak by its formula, and that of the
  schedule; seconds for tables, least budget and one solution.
- `inputs_kept`: the same where a rectifier's backward pass reads its input instead of its output;
  which of the two Chainer's did for the paper is not known, and the peaks hang on it.
- `exact`: the same over all lower sets, where there are at most 4,000.
- `min-cut`, `chen`: the lowest peak of each over its sweep.
- `search`: the lowest peak that `plan_choice` finds, and the least overhead at the peak of the
  program; seconds for all planners and the search, and microseconds for each choice that it tries.

Seconds are of processor time, for one of these programs at a time.

A reduction is of the peak of the schedule, parameters included as in the paper, against the step
without recomputation. The paper's own reductions are of peaks measured in Chainer.
"""

import argparse
import json
import time
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

import numpy as np
from _machine import add_common_options, result_path, write_result
from _paper_networks import REDUCTIONS, create

from pgmo.errors import GraphError
from pgmo.recompute.planners.evaluator import Choice, Evaluator
from pgmo.recompute.planners.kusumoto import DynamicProgram
from pgmo.recompute.planners.lower_sets import Dag, all_lower_sets, ancestor_sets
from pgmo.recompute.planners.planning import plan_choice, propose
from pgmo.units import format_bytes

T = TypeVar("T")

_FACTORS = tuple(3 ** (step / 12) for step in range(13))  # of the least budget, from 1 to 3


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """What it makes, and the seconds of processor time that it takes."""
    begin = time.process_time()
    made = work()
    return made, time.process_time() - begin


class Case:
    """One network."""

    def __init__(self, name: str, rectifiers_keep: Literal["input", "output"] = "output") -> None:
        self.name = name
        self.graph, self.parameters = create(name, rectifiers_keep)
        self.evaluator = Evaluator(self.graph)
        self.dag = Dag.of(self.graph)
        self.default = self.evaluator.candidate((), "default")

    def row(self, candidate: Choice) -> dict[str, Any]:
        """Peak, reduction and overhead of a choice."""
        peak = candidate.peak + self.parameters
        return {
            "peak": candidate.peak,
            "reduction": 1 - peak / (self.default.peak + self.parameters),
            "overhead": candidate.overhead,
        }

    def program(self) -> dict[str, Any]:
        """The approximate dynamic program."""

        def solve() -> tuple[DynamicProgram, int, Any]:
            program = DynamicProgram(self.dag, ancestor_sets(self.dag))
            least = program.least_budget()
            return program, least, program.solve(least)[1]

        (program, least, sequence), seconds = timed(solve)
        plans = [sequence, *(program.solve(round(factor * least))[1] for factor in _FACTORS[1:])]
        candidates = [self.evaluator.candidate(one.forgotten(), "program") for one in plans]
        best = int(np.argmin([one.peak for one in candidates]))
        return {
            "seconds": seconds,
            "formula_peak": sequence.peak,
            "at_least_budget": self.row(candidates[0]),
            "lowest": {**self.row(candidates[best]), "budget_factor": _FACTORS[best]},
        }

    def exact(self) -> dict[str, Any] | None:
        """The exact one; None where there are too many lower sets."""
        try:
            members, enumerated = timed(lambda: all_lower_sets(self.dag))
        except GraphError:
            return None

        def solve() -> Any:
            program = DynamicProgram(self.dag, members)
            return program.solve(program.least_budget())[1]

        sequence, seconds = timed(solve)
        candidate = self.evaluator.candidate(sequence.forgotten(), "exact")
        return {
            "lower_sets": len(members),
            "seconds": enumerated + seconds,
            "formula_peak": sequence.peak,
            "at_least_budget": self.row(candidate),
        }

    def lowest(self, proposed: Sequence[Choice], planner: str) -> dict[str, Any]:
        """The lowest peak of one planner."""
        return self.row(min((c for c in proposed if c.planner == planner), key=lambda c: c.peak))

    def measure(self, trials: int) -> dict[str, Any]:
        """All planners on this network; the time of an evaluation from so many of them."""
        program, exact = self.program(), self.exact()
        proposed, proposing = timed(lambda: propose(self.graph, self.evaluator))
        least, seconds = timed(lambda: plan_choice(self.graph, "min", candidates=proposed))
        budget = program["lowest"]["peak"]
        same, at_same = timed(lambda: plan_choice(self.graph, budget, candidates=proposed))
        as_candidate = [
            Choice(one.recomputed, one.peak, one.overhead, "search") for one in (least, same)
        ]
        half = self.default.peak // 2
        _, searching = timed(
            lambda: self.evaluator.search(
                self.default, half, evaluations=trials, time_limit=60, seed=0
            )
        )
        return {
            "network": self.name,
            "forward_operations": self.graph.forward,
            "parameters": self.parameters,
            "default_peak": self.default.peak,
            "paper": REDUCTIONS[self.name],
            "program": program,
            "inputs_kept": Case(self.name, "input").program()["lowest"],
            "exact": exact,
            "min_cut": self.lowest(proposed, "min-cut"),
            "chen": self.lowest(proposed, "chen"),
            "proposing_seconds": proposing,
            "evaluation_microseconds": 1e6 * searching / trials,
            "search": {**self.row(as_candidate[0]), "seconds": proposing + seconds},
            "search_at_program": {**self.row(as_candidate[1]), "seconds": proposing + at_same},
        }


def table(rows: Sequence[dict[str, Any]]) -> str:
    lines = [
        "| network | n | peak | paper | program | overhead | seconds | inputs kept "
        "| search, same peak: overhead | search, least peak | overhead | seconds |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        low, same, least = row["program"]["lowest"], row["search_at_program"], row["search"]
        cells = (
            row["network"],
            str(row["forward_operations"]),
            format_bytes(row["default_peak"] + row["parameters"]),
            f"-{row['paper']:.0%}",
            f"-{low['reduction']:.0%}",
            f"{low['overhead']:.2f}",
            f"{row['program']['seconds']:.2f}",
            f"-{row['inputs_kept']['reduction']:.0%}",
            f"{same['overhead']:.2f}",
            f"-{least['reduction']:.0%}",
            f"{least['overhead']:.2f}",
            f"{least['seconds']:.1f}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--networks", nargs="+", choices=list(REDUCTIONS), default=list(REDUCTIONS))
    parser.add_argument("--table", action="store_true", help="print the last results")
    add_common_options(parser)
    args = parser.parse_args()
    if args.table:
        path = result_path("recompute_planners", args.output)
        print(table(json.loads(path.read_text(encoding="utf-8"))["rows"]))
        return
    rows = []
    for name in ["VGG-19"] if args.quick else args.networks:
        rows.append(Case(name).measure(trials=200 if args.quick else 20_000))
        print(table(rows[-1:]).splitlines()[-1], flush=True)
    write_result("recompute_planners", {"rows": rows}, args.output, quick=args.quick)


if __name__ == "__main__":
    main()
