"""Memory of training steps on this card, as predicted by rehearsals and as measured.

    python bench/gpu/rehearsals.py --seconds 120
    python bench/gpu/rehearsals.py --quick              one model

Each model of `_models.py` runs eight steps of forward pass, backward pass and AdamW, in a process
of its own: on the card, and in a rehearsal of a card with the same properties (`pgmo rehearse`).
For the first models, a second rehearsal makes a plan, which then serves a run on the card from its
first request. The script compares the peaks of allocated and of reserved bytes, and
stores the bytes that the driver counts for the process. They include a context, whose size a
rehearsal estimates. Several models run at a time, because memory does not depend on time.
"""

import dataclasses
import json
import statistics
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from _launch import (
    HERE,
    Budget,
    OutOfTimeError,
    WorkerError,
    at_once,
    budget_of,
    device_or_exit,
    environment,
    gpu_parser,
    run_worker,
    write_gpu_result,
)
from support.machine import show

from pgmo.cards import Card, find
from pgmo.errors import PgmoError
from pgmo.rehearsal import Rehearsal, rehearse

MODELS = (
    "GPT-2",
    "ResNet-50",
    "Llama, bfloat16",
    "ConvNeXt tiny",
    "BERT",
    "EfficientNet B0",
    "Whisper",
    "DenseNet-121",
)
QUICK = "DistilBERT"
SCRIPT = HERE / "_rehearsed.py"
PLANNED = 4
"""Number of models, from the first, that also run with a rehearsal's plan."""

AT_ONCE = 8  # models, of which each starts one process after the other
Row = dict[str, Any]


def this_card() -> Card:
    """Return this machine's card, with the memory and multiprocessors that CUDA reports."""
    import torch

    properties = torch.cuda.get_device_properties(0)
    return dataclasses.replace(
        find("H100"),
        name=properties.name,
        memory=properties.total_memory,
        usable=properties.total_memory,
        capability=(properties.major, properties.minor),
        multiprocessors=properties.multi_processor_count,
    )


def on_the_card(name: str, folder: Path, budget: Budget, *under: str) -> Row:
    """Run a model on the card; return the memory that it took.

    Raises:
        WorkerError: if the run fails, or takes too long.
        OutOfTimeError: if the budget is over before the run ends.
    """
    output = folder / "taken.json"
    run_worker([*under, str(SCRIPT), name, str(output)], "default", budget)
    return dict(json.loads(output.read_text()))


def rehearsed(name: str, folder: Path, card: Card, budget: Budget, **how: Any) -> Rehearsal:
    """Rehearse a model; return the answer.

    Raises:
        WorkerError: if the rehearsal fails, or runs out of memory.
        OutOfTimeError: if the budget is over before the rehearsal starts.
    """
    try:
        answer = rehearse(
            [str(SCRIPT), name, str(folder / "rehearsed.json")],
            card=card,
            environment={"PYTHONPATH": environment("default")["PYTHONPATH"]},
            timeout=budget.for_one(),
            **how,
        )
    except PgmoError as error:
        raise WorkerError(str(error)) from error
    if not answer.fits:
        raise WorkerError(str(answer.reason or answer.out_of_memory))
    return answer


def with_the_plan(name: str, folder: Path, answer: Rehearsal, budget: Budget) -> list[Row]:
    """Run a model with a rehearsal's plan; return its iterations. Errors as in `on_the_card`."""
    if answer.plan is None:
        raise WorkerError("the rehearsal made no plan")
    counted = folder / "run.json"
    under = ("-m", "pgmo", "run", "--plan", str(answer.plan), "--json", str(counted))
    on_the_card(name, folder, budget, *under)
    sessions = json.loads(counted.read_text())["sessions"]
    kept = ("phase", "requests", "hits", "misses")
    return [{key: one[key] for key in kept} for one in sessions[0]["iterations"]]


def measure(name: str, card: Card, budget: Budget) -> Row:
    """Make all runs of a model. `errors` has what failed, or was left out for time."""
    row: Row = {"model": name, "errors": {}}
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        try:
            row["card"] = on_the_card(name, folder, budget)
            answer = rehearsed(name, folder, card, budget, way="default")
            row["rehearsed"] = {
                "allocated": answer.allocated_peak,
                "reserved": answer.reserved_peak,
                "context": answer.context,
                "notes": list(answer.notes),
            }
            if name in MODELS[PLANNED:]:
                return row
            planned = rehearsed(name, folder, card, budget, way="pgmo", save=folder / "plans")
            row["with_the_plan"] = with_the_plan(name, folder, planned, budget)
        except (WorkerError, OutOfTimeError) as error:
            row["errors"]["after " + list(row)[-1]] = str(error)
    return row


def error_of(row: Row, which: str) -> float | None:
    """Return the relative error of a rehearsal's peak; None without a rehearsal."""
    if "rehearsed" not in row:
        return None
    return float(row["rehearsed"][which] / row["card"][which] - 1)


def main() -> None:
    parser = gpu_parser(__doc__, 180)
    arguments = parser.parse_args()
    device_or_exit()
    card, budget = this_card(), budget_of(arguments)
    names = [QUICK] if arguments.quick else list(MODELS)
    with ThreadPoolExecutor(at_once(AT_ONCE)) as pool:
        rows = []
        for row in pool.map(lambda name: measure(name, card, budget), names):
            off = {f"{one} off by": error_of(row, one) for one in ("allocated", "reserved")}
            show({"model": row["model"], **off, **row["errors"]})
            rows.append(row)
    result: Row = {"rows": rows}
    for which in ("allocated", "reserved"):
        errors = [abs(one) for row in rows if (one := error_of(row, which)) is not None]
        if errors:
            result[f"{which}_error"] = {"median": statistics.median(errors), "most": max(errors)}
            print(f"{which}: median {statistics.median(errors):.2%}, most {max(errors):.2%}")
    write_gpu_result("rehearsals", result, arguments.output, quick=arguments.quick)


if __name__ == "__main__":
    main()
