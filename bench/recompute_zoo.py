"""Models of transformers, timm, torchvision and diffusers under `pgmo.recompute`, unchanged.

    python bench/recompute_zoo.py
    python bench/recompute_zoo.py --quick                 # two models, as a test
    python bench/recompute_zoo.py --models "GPT-2" ViT    # some of them
    python bench/recompute_zoo.py --table                 # the table of bench/details.md

Small models with random weights run on the CPU with one thread, each in a process of its own. For
each model, the script measures

- whether five steps are bit-identical to the plain model's (losses, gradients, buffers, random
  numbers): with another batch, another batch size, other rates and epsilons, in evaluation mode
- the least peak, and the overheads at 0.7 of the peak, at 0.5, and at the least peak
- CPU seconds of capture and plan, and of the first step with another batch size

The peers are the library's own checkpointing, and PyTorch's `activation_memory_budget` with the
same capture. It needs `pip install transformers timm torchvision diffusers`.
"""

import argparse
import copy
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # otherwise each profile prints a message

import torch
from recomputation.step_ways import MemoryBudget, Planned, Way, compare, peak, rows_of_process
from support.machine import Seconds, print_earlier, table_parser, write_result
from torch import nn
from workloads.columns import markdown
from workloads.zoo import NAMES, ZOO, Batch, Made, create

import pgmo

SETTINGS = (0.7, 0.5, "min")
BUDGETS = (0.5, 0.2, 0.0)
"""Values of `activation_memory_budget`."""

QUICK = ("GPT-2", "ViT")

WARM_UP = 4
"""Number of steps of each way before steps are timed."""


def measure(name: str, repetitions: int) -> dict[str, Any]:
    """Measure one model, and return its row."""
    row: dict[str, Any] = {"model": name, "library": ZOO[name].library}
    made = create(name)
    batch = made.batch(made.samples)
    plain = Way("plain", None, made.model, batch)
    plain_peak = peak(plain)
    row |= {"peak": plain_peak, "timed": repetitions > 0, "ways": []}
    ways: list[tuple[dict[str, Any], Way]] = []
    for setting in SETTINGS:
        way: dict[str, Any] = {"way": "pgmo", "setting": setting}
        row["ways"].append(way)
        begin = time.process_time()
        try:
            ours = Planned(copy.deepcopy(made.model), batch, setting, setting)
        except pgmo.PgmoError as error:
            way["failed"] = f"{type(error).__name__}: {error}"
            continue
        way |= {
            "planning_seconds": time.process_time() - begin,
            "predicted_share": ours.plan.peak / plain_peak,  # before any step has run
            "default_share": ours.plan.default_peak / plain_peak,
            "overhead": ours.plan.overhead,
        }
        ours.step()
        way["peak_share"] = peak(ours) / plain_peak
        ways.append((way, ours))
    row["same"], row["size_seconds"] = _same_bits(name)
    if made.checkpoint is not None:
        _add_checkpointing(name, row, ways, batch)
    for budget in BUDGETS:
        way = {"way": "activation_memory_budget", "setting": budget}
        row["ways"].append(way)
        torch._dynamo.reset()
        try:
            theirs = MemoryBudget(copy.deepcopy(made.model), batch, budget)
        except Exception as error:
            way["failed"] = f"{type(error).__name__}: {error}"[:300]
            continue
        way |= {"peak_share": peak(theirs) / plain_peak, "overhead": theirs.share}
        ways.append((way, theirs))
    _add_times(ways, plain, repetitions)
    return row


def _add_times(ways: list[tuple[dict[str, Any], Way]], plain: Way, repetitions: int) -> None:
    """Measure all ways and the plain model in turns, in CPU seconds, and add their ratios."""
    if not repetitions:
        return
    # Making another way resets Dynamo, so the first steps of each way capture and plan again.
    for _ in range(WARM_UP):
        for _, way in ways:
            way.step()
    for _ in range(repetitions):
        for way in (plain, *(way for _, way in ways)):
            way.time(time.process_time)
    base = Seconds.of(plain.seconds).median
    for row, way in ways:
        row["time_against_plain"] = Seconds.of(way.seconds).median / base


def changes(made: Made) -> Iterator[tuple[str, Callable[[nn.Module], Batch]]]:
    """Yield five titles, each with a function that changes a model and returns a batch."""
    usual, other = made.batch(made.samples), made.batch(made.samples)
    smaller = made.batch(max(2, made.samples // 2))
    yield "the first batch", lambda _: usual
    yield "another batch", lambda _: other
    yield "another size", lambda _: smaller
    yield "other numbers", lambda model: _other_numbers(model) or usual
    yield "evaluation mode", lambda model: model.eval() and usual


def _other_numbers(model: nn.Module) -> None:
    """Halve dropout rates and epsilons of norms, of PyTorch's and of the library's modules."""
    for module in model.modules():
        for name in ("eps", "variance_epsilon", "p"):
            value = vars(module).get(name)
            if isinstance(value, float):
                setattr(module, name, 0.5 * value)


def _same_bits(name: str) -> tuple[dict[str, Any], float | None]:
    """Return comparisons of five steps with the plain model's, and CPU seconds of a new size."""
    made = create(name)
    plain = copy.deepcopy(made.model)
    found: dict[str, Any] = {}
    seconds = None
    try:
        model, _ = pgmo.recompute(made.model, budget="min")
        for number, (title, change) in enumerate(changes(made)):
            batch = change(plain)
            change(model)
            try:
                expected = Way("plain", None, plain, batch).outcome(number)
            except RuntimeError:
                continue  # the plain model fails with this change
            begin = time.process_time()
            found[title] = compare(expected, Way("pgmo", "min", model, batch).outcome(number))
            if title == "another size":
                seconds = time.process_time() - begin
    except pgmo.PgmoError as error:
        found["failed"] = f"{type(error).__name__}: {error}"
    return found, seconds


def _add_checkpointing(
    name: str, row: dict[str, Any], ways: list[tuple[dict[str, Any], Way]], batch: Batch
) -> None:
    made = create(name)
    way: dict[str, Any] = {"way": "checkpoint", "setting": "each block"}
    row["ways"].append(way)
    theirs = Way("checkpoint", "each block", made.model, batch)
    try:
        assert made.checkpoint is not None
        made.checkpoint()
        theirs.step()
        way["peak_share"] = peak(theirs) / row["peak"]
        ways.append((way, theirs))
    except Exception as error:
        way["failed"] = f"{type(error).__name__}: {error}"[:300]
    _add_without_cache(name, row, batch)


def _add_without_cache(name: str, row: dict[str, Any], batch: Batch) -> None:
    """Measure the least peak without cache, as under transformers' checkpointing."""
    model: Any = create(name).model
    config = getattr(model, "config", None)
    if not getattr(config, "use_cache", False):
        return
    config.use_cache = False
    way: dict[str, Any] = {"way": "pgmo without cache", "setting": "min"}
    row["ways"].append(way)
    ours = Planned(model, batch, "min", "min")
    ours.step()
    way |= {"peak_share": peak(ours) / row["peak"], "overhead": ours.plan.overhead}


def table(rows: list[dict[str, Any]]) -> str:
    head = ["model", "library", "same bits", "default predicted", "plans predicted"]
    head += ["at 0.7", "at 0.5", "least", "least without cache", "checkpointing"]
    head += ["activation_memory_budget, least", "capture and plan, s", "new size, s"]
    lines = []
    for row in rows:
        line = [row["model"], row["library"], _bits(row["same"])]
        lines.append(line + (_figures(row) if row["ways"] else [""] * (len(head) - 3)))
    return markdown([head, *lines])


def _figures(row: dict[str, Any]) -> list[str]:
    ways = {(way["way"], way["setting"]): way for way in row["ways"]}
    least = ways["pgmo", "min"]
    theirs = [way for way in row["ways"] if way["way"] == "activation_memory_budget"]
    done = [way for way in theirs if "peak_share" in way]
    best = min(done, key=lambda way: way["peak_share"], default={"failed": ""})
    return [
        f"{least['default_share']:.3f}" if "default_share" in least else "",
        _predicted(ways),
        *(_cost(ways["pgmo", one]) for one in (0.7, 0.5)),
        _peak_and_cost(least),
        _peak_and_cost(ways.get(("pgmo without cache", "min"))),
        _peak_and_cost(ways.get(("checkpoint", "each block"))),
        _peak_and_cost(best),
        f"{least['planning_seconds']:.1f}" if "planning_seconds" in least else "",
        f"{row['size_seconds']:.1f}" if row.get("size_seconds") is not None else "",
    ]


def _predicted(ways: dict[tuple[str, Any], dict[str, Any]]) -> str:
    """Return the ratio of predicted to measured peak that is furthest from 1."""
    found = [ways["pgmo", one] for one in SETTINGS]
    ratios = [way["predicted_share"] / way["peak_share"] for way in found if "peak_share" in way]
    return f"{max(ratios, key=lambda one: abs(one - 1)):.3f}" if ratios else ""


def _bits(same: dict[str, Any]) -> str:
    if "failed" in same:
        return "cannot"
    other = [title for title, parts in same.items() if not all(parts.values())]
    return f"not with {', '.join(other)}" if other else "yes"


def _cost(way: dict[str, Any]) -> str:
    if "failed" in way:
        return "cannot"
    return ", ".join([f"{100 * way['overhead']:.0f} %", *_time(way)])


def _peak_and_cost(way: dict[str, Any] | None) -> str:
    if way is None:
        return ""
    if "failed" in way:
        return "cannot"
    share = [f"{100 * way['overhead']:.0f} %"] if "overhead" in way else []
    return ", ".join([f"{way['peak_share']:.2f}", *share, *_time(way)])


def _time(way: dict[str, Any]) -> list[str]:
    return [f"{way['time_against_plain']:.2f}x"] if "time_against_plain" in way else []


def main() -> None:
    parser = table_parser(__doc__)
    parser.add_argument("--models", nargs="+", choices=NAMES)
    parser.add_argument("--repetitions", type=int, default=5, help="of timed steps; 0 times none")
    arguments = parser.parse_args()
    if print_earlier("recompute_zoo", arguments, lambda found: table(found["rows"])):
        return
    torch.set_num_threads(1)
    names = arguments.models or (QUICK if arguments.quick else NAMES)
    if len(names) == 1:
        warnings.simplefilter("ignore")  # about plans that were made again, which are measured
        rows = [measure(names[0], 2 if arguments.quick else arguments.repetitions)]
    else:
        rows = []
        for name in names:
            rows += _in_process(name, arguments)
            _write(rows, arguments)  # kept if the run is interrupted
    _write(rows, arguments)
    print(table(rows))


def _write(rows: list[dict[str, Any]], arguments: argparse.Namespace) -> None:
    result = {"torch": torch.__version__, "threads": torch.get_num_threads(), "rows": rows}
    write_result("recompute_zoo", result, arguments.output, quick=arguments.quick)


def _in_process(name: str, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Measure a model in a process of its own; return its row, or one with the failure."""
    options = ("--models", name, "--repetitions", str(arguments.repetitions))
    try:
        rows = rows_of_process(__file__, *options, quick=arguments.quick)
    except subprocess.CalledProcessError as error:
        same = {"failed": f"the process ended with {error.returncode}"}
        rows = [{"model": name, "library": ZOO[name].library, "ways": [], "same": same}]
    print(*table(rows).splitlines()[2:], sep="\n", file=sys.stderr, flush=True)
    return rows


if __name__ == "__main__":
    main()
