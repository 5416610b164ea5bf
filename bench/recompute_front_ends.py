"""Two front ends of recomputation side by side: AOTAutograd's capture alone, and Dynamo's.

    python bench/recompute_front_ends.py
    python bench/recompute_front_ends.py --quick                 # two models, to see that it works
    python bench/recompute_front_ends.py --models "GPT-2" gpt    # some of them
    python bench/recompute_front_ends.py --table                 # the table of docs/design.md

The models of `recompute_zoo.py` and `recompute.py`, each in a process of its own, on the CPU with
one thread. Both front ends get the same planner with the same number of evaluations. For each:
whether five steps with another batch, another batch size, other rates and epsilons, and in
evaluation mode have the bits of the plain model; predicted and measured peak; the least peak; the
overhead at 70 % of the plain peak; seconds of the processor for capture and planning, and for a
new batch size.
"""

import argparse
import copy
import functools
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # else each profile is announced

import torch
from _machine import add_common_options, result_path, write_result
from _zoo_steps import changes, compare, peak, run_step
from torch import Tensor, nn
from workloads import step, zoo
from workloads.zoo.model import Batch, Made

import pgmo
from pgmo.recompute.compiled.model import CompiledModel
from pgmo.recompute.planners.budget import parse_budget
from pgmo.recompute.planners.planning import plan_choice
from pgmo.recompute.runtime.decide import PlannedStep, Settings
from pgmo.recompute.runtime.twin import twin

EVALUATIONS = 1_000
"""Choices that each search tries: enough to compare front ends, which plan the same steps."""

SETTINGS = ("min", 0.7)

NAMES = (*zoo.NAMES, *step.NAMES)
QUICK = ("ViT", "BERT")

Front = Callable[[nn.Module, Batch, Any], tuple[nn.Module, Callable[[], PlannedStep]]]


def aotautograd(model: nn.Module, batch: Batch, budget: Any) -> Any:
    """The front end that captures by means of its own, with AOTAutograd."""
    made, plan = pgmo.recompute(model, batch, budget=budget, planner=_planner())
    return made, lambda: plan._planned


def dynamo(model: nn.Module, batch: Batch, budget: Any) -> Any:
    """The front end on Dynamo's capture."""
    compiled = CompiledModel(model, Settings(parse_budget(budget), _planner()))
    arguments, keywords = ((), batch) if isinstance(batch, dict) else (batch, {})
    captured = compiled.capture(*arguments, **keywords)
    return twin(model, compiled, lambda other: other), lambda: captured.planned


FRONTS: dict[str, Front] = {"aotautograd": aotautograd, "dynamo": dynamo}


def _planner() -> Any:
    return functools.partial(plan_choice, evaluations=EVALUATIONS, rate=None)


def create(name: str) -> Made:
    """A model of one of the two benchmarks."""
    if name in zoo.NAMES:
        return zoo.create(name)
    model, inputs = step.create(name)

    def batch(samples: int) -> tuple[Tensor, ...]:
        return tuple(one[:samples].contiguous() for one in inputs)

    return Made(model, batch, len(inputs[0]))


def measure(name: str) -> dict[str, Any]:
    """The row of one model."""
    made = create(name)
    batch = made.batch(made.samples)
    plain_peak = peak(made.model, batch)
    row: dict[str, Any] = {"model": name, "peak": plain_peak, "ways": []}
    for front, recompute in FRONTS.items():
        for setting in SETTINGS:
            way: dict[str, Any] = {"way": front, "setting": setting}
            row["ways"].append(way)
            try:
                _measure(way, create(name), batch, plain_peak, recompute)
            except Exception as error:
                way["failed"] = f"{type(error).__name__}: {error}"[:400]
    return row


def _measure(
    way: dict[str, Any], made: Made, batch: Batch, plain_peak: int, recompute: Front
) -> None:
    """Adds the figures of a front end at one budget."""
    setting = way["setting"]
    budget = setting if isinstance(setting, str) else int(setting * plain_peak)
    plain = copy.deepcopy(made.model)
    begin = time.process_time()
    model, planned = recompute(made.model, batch, budget)
    way["cpu_seconds"] = time.process_time() - begin
    way["predicted_share"] = planned().schedule.peak / plain_peak
    way["default_share"] = planned().default.peak / plain_peak
    for _ in range(2):  # what was planned again runs from the second step on
        run_step(model, batch, 0)
    way["peak_share"] = peak(model, batch) / plain_peak
    way["planned_share"] = planned().schedule.peak / plain_peak
    way["overhead"] = planned().schedule.overhead
    if setting == "min":
        for _ in range(3):
            run_step(plain, batch, 0)
        way["same"], way["size_seconds"] = _same_bits(made, plain, model)


def _same_bits(made: Made, plain: nn.Module, model: nn.Module) -> tuple[dict[str, Any], float]:
    """Five steps compared with the plain model's, and the seconds for another batch size."""
    found: dict[str, Any] = {}
    seconds = 0.0
    try:
        for number, (title, change) in enumerate(changes(made)):
            batch = change(plain)
            change(model)
            expected = run_step(plain, batch, number)
            begin = time.process_time()
            got = run_step(model, batch, number)
            if title == "another size":
                seconds = time.process_time() - begin
            found[title] = compare(expected, got)
    except Exception as error:
        found["failed"] = f"{type(error).__name__}: {error}"[:400]
    return found, seconds


def table(rows: list[dict[str, Any]]) -> str:
    """One table in Markdown; the figures of both front ends are in one cell each."""
    head = ["model", "same bits", "measured / predicted", "least peak", "overhead at 0.7"]
    head += ["capture and plan, s", "new size, s"]
    lines = [head, ["---"] * len(head)]
    for row in rows:
        ways = {(way["way"], way["setting"]): way for way in row["ways"]}
        least = [ways.get((front, "min"), {}) for front in FRONTS]
        middle = [ways.get((front, 0.7), {}) for front in FRONTS]
        lines.append(
            [
                row["model"],
                _both([_bits(one) for one in least]),
                _both([_furthest(one, other) for one, other in zip(least, middle, strict=True)]),
                _both([_figure(one, "peak_share", "{:.3f}") for one in least]),
                _both([_figure(one, "overhead", "{:.1%}") for one in middle]),
                _both([_figure(one, "cpu_seconds", "{:.1f}") for one in least]),
                _both([_figure(one, "size_seconds", "{:.1f}") for one in least]),
            ]
        )
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _both(cells: list[str]) -> str:
    return cells[0] if cells[0] == cells[1] else " / ".join(cells)


def _figure(way: dict[str, Any], name: str, form: str) -> str:
    return form.format(way[name]) if name in way else "refused"


def _furthest(*ways: dict[str, Any]) -> str:
    ratios = [one["peak_share"] / one["planned_share"] for one in ways if "planned_share" in one]
    return f"{max(ratios, key=lambda one: abs(one - 1)):.3f}" if ratios else "refused"


def _bits(way: dict[str, Any]) -> str:
    same = way.get("same")
    if same is None:
        return "refused"
    if "failed" in same:
        return "fails"
    other = [title for title, parts in same.items() if not all(parts.values())]
    return f"not with {', '.join(other)}" if other else "yes"


def main() -> None:
    """Measures the models and writes the result."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--models", nargs="+", choices=NAMES)
    parser.add_argument("--table", action="store_true", help="print the table of the results")
    add_common_options(parser)
    arguments = parser.parse_args()
    if arguments.table:
        path = result_path("recompute_front_ends", arguments.output)
        print(table(json.loads(path.read_text(encoding="utf-8"))["rows"]))
        return
    torch.set_num_threads(1)
    names = arguments.models or (QUICK if arguments.quick else NAMES)
    if len(names) == 1:
        warnings.simplefilter("ignore")  # a plan that was made again: the second one is measured
        rows = [measure(names[0])]
    else:
        rows = []
        for name in names:
            rows += _in_process(name, arguments)
            _write(rows, arguments)  # what there is, should one of them take too long
    _write(rows, arguments)
    print(table(rows))


def _write(rows: list[dict[str, Any]], arguments: argparse.Namespace) -> None:
    result = {"torch": torch.__version__, "evaluations": EVALUATIONS, "rows": rows}
    write_result("recompute_front_ends", result, arguments.output, quick=arguments.quick)


def _in_process(name: str, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """The row of a model that a process of its own measures; none if that ends with an error."""
    with TemporaryDirectory() as folder:
        output = Path(folder) / "row.json"
        command = [sys.executable, __file__, "--models", name, "--output", str(output)]
        command += ["--quick"] if arguments.quick else []
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        print(*done.stdout.splitlines()[2:], sep="\n", file=sys.stderr, flush=True)
        if done.returncode:
            return [{"model": name, "ways": []}]
        rows: list[dict[str, Any]] = json.loads(output.read_text(encoding="utf-8"))["rows"]
        return rows


if __name__ == "__main__":
    main()
