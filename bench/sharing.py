"""Several trainings on one card, which take turns.

Needs no GPU: the real CUDA build of PyTorch runs on the stub CUDA runtime of pgmo/rehearsal.

    python bench/sharing.py --python .venv-fakecuda/bin/python
    python bench/sharing.py --python .venv-fakecuda/bin/python --program turns
    python bench/sharing.py --table

The programs train GPT-2 medium two or four times, at batches of 8, 4, 6 and 2. In `turns`, one
thread runs an iteration of each training after the other. In `threads`, each training has its own
thread. In `processes`, each has its own process (`shared/processes.py`), with a broker if pgmo
serves. Every contender has a card of 141 GiB. Peaks are of all bytes taken from the card.
`fits_without` states whether the same processes run with expandable segments on a card of pgmo's
peak. `phases.py` measures state that sleeps.

Trainings need the bytes that persist (parameters, optimizer state) and the largest arena. `over` is
the peak divided by these bytes. PyTorch's own allocator shares its cache among threads on one
stream, so its peak with several threads depends on what happens to live at once.
"""

import argparse
from dataclasses import replace

from shared import CONTENDERS, NAMES, PROCESSES, SharedJob, processes
from support.machine import print_earlier, show, write_result
from support.stub_jobs import Row, row_of, stub_parser
from workloads.columns import markdown
from workloads.launch import ROOT, Stub

MIB = 1 << 20


def measure(stub: Stub, case: SharedJob) -> list[Row]:
    """Return one row per contender."""
    rows = []
    for name in CONTENDERS:
        row = run(stub, replace(case, contender=name))
        rows.append(row)
        if row.get("arenas"):
            row["needed"] = row["persistent"] + max(row["arenas"])
            row["over"] = row["peak"] / row["needed"]
            if case.program == PROCESSES:
                row["fits_without"] = processes.fits(stub, case, row["peak"])
        show(row)
    return rows


def run(stub: Stub, job: SharedJob) -> Row:
    """Return the row of a job: its figures, or its failure."""

    def answer() -> Row:
        if job.program == PROCESSES:
            return processes.ask(stub, job)
        return stub.ask(job, "shared.worker")

    return row_of(job, answer, "program", "models", "iterations")


def table(rows: list[Row]) -> str:
    """Return peaks as Markdown."""
    lines = [["jobs", "default", "expandable segments", "pgmo", "above what is needed"]]
    cases = dict.fromkeys((row["program"], row["models"]) for row in rows)
    for program, models in cases:
        found = {
            r["contender"]: r for r in rows if (r["program"], r["models"]) == (program, models)
        }
        cells = [f"{found[n]['peak'] / MIB:,.0f} MiB" if n in found else "" for n in CONTENDERS]
        over = found.get("pgmo", {}).get("over")
        cells.append(f"{over:.3f}" if over else "")
        lines.append([f"{models} trainings, {program}", *cells])
    return markdown(lines)


def parse() -> argparse.Namespace:
    parser = stub_parser(__doc__)
    parser.add_argument("--program", choices=NAMES, action="append", help="repeatable")
    parser.add_argument("--iterations", type=int, default=8, help="of each training")
    return parser.parse_args()


def main() -> None:
    arguments = parse()
    if print_earlier("sharing", arguments, lambda found: table(found["rows"])):
        return
    stub = Stub.build(arguments.python, ROOT / arguments.stub)
    cases = [
        SharedJob(
            program,
            models,
            iterations=arguments.iterations,
            small=arguments.quick,
        )
        for program in arguments.program or NAMES
        for models in ((2,) if arguments.quick else (2, 4))
    ]
    rows = [row for case in cases for row in measure(stub, case)]
    write_result("sharing", {"rows": rows}, arguments.output, quick=arguments.quick)
    print(table(rows))


if __name__ == "__main__":
    main()
