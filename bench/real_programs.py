"""Unchanged programs of other projects under `pgmo run`: results, bytes from slots, and peaks.

    python bench/real_programs.py
    python bench/real_programs.py --program nanogpt --program trl_sft
    python bench/real_programs.py --on-stub --python .venv-fakecuda/bin/python
    python bench/real_programs.py --table

The programs of `programs/` are scripts of other projects, or loops that follow the documentation of
the libraries that they use. Each runs twice on the CPU, in processes of its own and with one
thread: by itself, and under `pgmo run`. The script compares the losses and the digest of all
weights, bit for bit, the peak of the process's resident memory, and its CPU time. Of several
repetitions the median counts. On the CPU there are no pages: the plain run is the control. *From
slots* is the share of the bytes of all iterations, recorded ones included, but without evaluations
between them.

With `--on-stub` the programs run on the stub CUDA runtime, without a GPU: with PyTorch's default
allocator, with expandable segments, on pgmo's pages without a session, and under `pgmo run`. The
script compares the peaks of the card and the CPU time of the whole program. It counts driver calls,
requests that map a page, and waits per optimizer step of the last third. Triton's kernels need a
driver, so Triton is hidden, and trl's losses use PyTorch's operators. Programs that call
`generate()` are skipped: `generate()` ends at a token that a kernel computes, and no kernel runs on
the stub.
"""

import argparse
import json
import statistics
import sys
from importlib import metadata
from importlib.util import find_spec
from typing import Any

from programs import ENDLESS, NAMES, PROGRAMS
from support.agreement import Agreement, agreement
from support.machine import print_earlier, show, write_result
from support.stub_jobs import compare, row_of, stub_parser
from whole_runs import CONTENDERS, WholeRun, cpu, table
from workloads.launch import Stub, WorkerError

QUICK = ("nanogpt", "lightning_gan")


def measure(name: str, steps: int, repetitions: int, *, small: bool) -> dict[str, Any]:
    """Run a program without and with pgmo, in turns; return its row, sizes in bytes."""
    row: dict[str, Any] = {"program": name, "steps": steps}
    missing = [one for one in PROGRAMS[name].packages if find_spec(one) is None]
    if missing:
        return row | {"skipped": f"{', '.join(missing)} not installed"}
    try:
        pairs = [
            [cpu.run(name, steps, small=small, ours=ours) for ours in (False, True)]
            for _ in range(repetitions)
        ]
    except WorkerError as error:
        return row | {"failed": str(error)}
    plain, ours = (statistics.median(pair[at].peak for pair in pairs) for at in (0, 1))
    cpu_plain, cpu_ours = (
        statistics.median(pair[at].cpu_seconds for pair in pairs) for at in (0, 1)
    )
    last = pairs[-1][1]
    share, iterations = cpu.from_slots(last.counted)
    first, *others = (json.dumps(one.result) for pair in pairs for one in pair)
    agreed = agreement(
        first, others, lambda: json.dumps(cpu.run(name, steps, small=small, ours=False).result)
    )
    return row | {
        "identical": agreed is Agreement.IDENTICAL,
        "agreement": agreed,
        "iterations": iterations,
        "from_slots": share,
        "plain_peak": plain,
        "peak": ours,
        "above_plain": ours - plain,
        "cpu_seconds": cpu_ours,
        "cpu_over_plain": cpu_ours / cpu_plain,
        "plain_peaks": [pair[0].peak for pair in pairs],
        "peaks": [pair[1].peak for pair in pairs],
        "seconds": [round(sum(run.seconds for run in pair), 1) for pair in pairs],
        "notes": last.counted["notes"],
    }


def measure_on_stub(stub: Stub, name: str, steps: int, *, small: bool) -> list[dict[str, Any]]:
    """Run a program under each contender on the stub; return the rows, sizes in bytes."""
    if name in ENDLESS:
        return [
            {"program": name, "steps": steps, "contender": one, "skipped": "generate() never ends"}
            for one in CONTENDERS
        ]
    rows = []
    for contender in CONTENDERS:
        job = WholeRun(name, steps, contender=contender, small=small)
        rows.append(
            row_of(job, lambda job=job: stub.ask(job, "whole_runs.worker"), "program", "steps")
        )
    for row in rows:
        compare(row, *rows[:2])
    return rows


def versions() -> dict[str, str]:
    """Return the versions of the packages that the programs import."""
    names = sorted({one for program in PROGRAMS.values() for one in program.packages} | {"torch"})
    return {name: metadata.version(name) for name in names if find_spec(name)}


def parse() -> argparse.Namespace:
    parser = stub_parser(__doc__)
    parser.add_argument("--program", choices=NAMES, action="append", help="repeatable")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--on-stub", action="store_true", help="on the stub CUDA runtime")
    return parser.parse_args()


def table_of(result: dict[str, Any]) -> str:
    """Return the table of either result."""
    return table.TABLES[result["benchmark"]](result["rows"])


def main() -> None:
    arguments = parse()
    if print_earlier("real_programs", arguments, table_of, "real_programs_stub"):
        return
    quick = arguments.quick
    programs = arguments.program or (QUICK if quick else NAMES)
    steps, repetitions = (12, 1) if quick else (arguments.steps, arguments.repetitions)
    rows: list[dict[str, Any]] = []
    name = "real_programs_stub" if arguments.on_stub else "real_programs"
    result = {"rows": rows, **({} if arguments.on_stub else {"versions": versions()})}
    stub = Stub.build(arguments.python, arguments.stub.resolve()) if arguments.on_stub else None
    for program in programs:
        if stub is not None:
            found = measure_on_stub(stub, program, steps, small=quick)
        else:
            found = [measure(program, steps, repetitions, small=quick)]
        rows += found
        for row in found:
            show(row)
        write_result(name, result, arguments.output, quick=quick)  # kept if the run is interrupted
    print(table.TABLES[name](rows))
    if any("failed" in row or row.get("agreement") == Agreement.DIFFERENT for row in rows):
        sys.exit("some runs failed, or gave other results than plain PyTorch")


if __name__ == "__main__":
    main()
