"""The largest batch that `pgmo fit` finds for a 16 GiB card, against trial and error.

Needs no GPU: the real CUDA build of PyTorch runs on the stub CUDA runtime of pgmo/rehearsal.

    python bench/fit.py --python .venv-fakecuda/bin/python
    python bench/fit.py --python .venv-fakecuda/bin/python --program resnet50
    python bench/fit.py --table

The scripts of `fitted/` train with AdamW. `pgmo fit` rehearses each at batches of 2 and 4, predicts
the largest batch with pgmo and with plain PyTorch, and rehearses both. Then the scripts run for 10
steps on the stub card: at the answer, which has to fit, and at the next batches until one runs out
of memory. Trial and error finds the largest batch that ran. A search by trial doubles the batch and
then halves the interval; its number of runs, and of runs out of memory, follows from the answer.
Seconds are those of the rehearsals on this machine, where kernels compute nothing.
"""

import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

from fitted import LIBRARIES, PROGRAMS
from workloads.columns import markdown
from workloads.scripts import Result, measured, parser, run

from pgmo.cards import Card, find
from pgmo.fit.evidence import Job
from pgmo.fit.largest import MOST, search
from pgmo.rehearsal import Rehearsal, rehearse
from pgmo.rehearsal.environment import Way

CARD, QUICK_CARD = "16GiB", "704MiB"
QUICK = ("gpt2_medium",)
FOLDER = Path(__file__).parent / "fitted"
STEPS = 10
AT_MOST = 6  # batches to run, from an answer on


def measure(name: str, card: Card, python: str, *, small: bool) -> dict[str, Any]:
    """Look for the largest batches of a program, and run them."""
    command = [str(FOLDER / f"{name}.py"), *(["--small"] if small else [])]
    begin = time.monotonic()
    found = search(Job(tuple(command), vary="--batch-size {}", python=python), card)
    row: dict[str, Any] = {
        "program": name,
        "rehearsals": len(found.evidence),
        "failed_rehearsals": sum(not one.rehearsal.fits for one in found.evidence),
        "seconds": round(time.monotonic() - begin, 1),
        "law": found.law.description,
        "ways": {},
    }
    for one in found.found:
        tried = try_out(command, card, one.way, one.value, python)
        runs, failures = trial_and_error(one.value)
        row["ways"][one.way] = {
            "largest": one.value,
            "proved": one.proved,
            "needs": one.need.total(one.way) if one.need else None,
            "took": tried[one.value].card_peak if one.value else None,
            "fits": tried[one.value].fits if one.value else None,
            "by_trial": max((batch for batch, run in tried.items() if run.fits), default=0),
            "still_fits": all(run.fits for run in tried.values()),
            "trial_runs": runs,
            "trial_failures": failures,
        }
    return row


def try_out(
    command: list[str], card: Card, way: Way, batch: int, python: str
) -> dict[int, Rehearsal]:
    """Run a script at a batch and at the next ones, until one runs out of memory."""
    found: dict[int, Rehearsal] = {}
    for one in range(max(1, batch), batch + AT_MOST):
        found[one] = rehearse(
            [*command, "--batch-size", str(one), "--steps", str(STEPS)],
            card=card,
            way=way,
            python=python,
        )
        if not found[one].fits:
            break
    return found


def trial_and_error(largest: int, first: int = 2) -> tuple[int, int]:
    """Return the runs and failures of a search that doubles, and then halves the interval.

    Example:
        >>> trial_and_error(6)
        (5, 2)
    """
    runs = failures = 0
    low, high = 0, first
    while True:
        runs += 1
        if high > largest:
            failures += 1
            break
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        runs += 1
        if middle > largest:
            failures += 1
            high = middle
        else:
            low = middle
    return runs, failures


def fits(row: dict[str, Any]) -> bool:
    """Return whether the scripts ran at all answers."""
    return all(one["fits"] for one in row["ways"].values())


def by_trial(one: dict[str, Any]) -> str:
    """Return the largest batch that ran as text; "or more" if no batch ran out of memory."""
    return f"{one['by_trial']}{' or more' if one['still_fits'] else ''}"


def tables(result: dict[str, Any]) -> str:
    """Return the table of bench/details.md."""
    answers = ["pgmo: answer", "pgmo: by trial", "as it is: answer", "as it is: by trial"]
    costs = ["rehearsals", "out of memory at the answers"]
    lines = [["script", *answers, *costs, "a search by trial: runs, out of memory"]]
    for row in result["rows"]:
        ours, plain = row["ways"]["pgmo"], row["ways"]["default"]
        failed = sum(not one["fits"] for one in (ours, plain))
        cells = [PROGRAMS[row["program"]]]
        for one in (ours, plain):
            cells += [str(one["largest"]), by_trial(one)]
        cells += [f"{row['rehearsals']} in {row['seconds']:.0f} s", str(failed)]
        lines.append([*cells, f"{ours['trial_runs']}, {ours['trial_failures']}"])
    return markdown(lines)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--program", choices=list(PROGRAMS), action="append")
    arguments = options.parse_args()
    quick = arguments.quick
    card = find(QUICK_CARD if quick else CARD)
    names = arguments.program or (QUICK if quick else PROGRAMS)

    def rows() -> Result:
        of = partial(measure, card=card, python=arguments.python, small=quick)
        return {"card": card.name, "rows": measured(names, of)}

    result = run("fit", arguments, tables, rows, LIBRARIES)
    if result and not all(fits(row) and row["rehearsals"] <= MOST for row in result["rows"]):
        sys.exit("an answer ran out of memory, or took too many rehearsals")


if __name__ == "__main__":
    main()
