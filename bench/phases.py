"""Phases of reinforcement learning on one card: the card's peak in each phase.

Needs no GPU: the real CUDA build of PyTorch runs on the stub CUDA runtime of pgmo/rehearsal.

    python bench/phases.py --python .venv-fakecuda/bin/python
    python bench/phases.py --python .venv-fakecuda/bin/python --program grpo --contender pgmo
    python bench/phases.py --table

In `grpo` the policy generates. In `pool` an engine in the same process generates, whose weights and
cache are in a `MemPool` (`phased/grpo.py`). `trainer` is trl's GRPOTrainer
(`phased/grpo_trainer.py`), which needs `pip install trl datasets`. Peaks are those of a card of
141 GiB. In `processes` (`phased/processes.py`) an engine has a process of its own on a card of
16 GiB. In each of 100 rounds it gets weights by CUDA IPC, and takes nine tenths of the free memory
for its cache. The figures are the bytes of this cache, the open file descriptors of both processes,
and the bytes that both processes hold after training.

`backup` copies segments to the host as torch_memory_saver does (emulated, `phased/ways.py`). With
PyTorch's own allocators and with pages alone, caches are emptied between phases and nothing sleeps.
"""

import argparse
import tempfile
from dataclasses import replace

from phased import CONTENDERS, PROGRAMS, PhasedJob
from support.machine import print_earlier, show, write_result
from support.stub_jobs import Row, row_of, stub_parser
from workloads.columns import markdown
from workloads.job import LARGE_CARD
from workloads.launch import ROOT, Stub

MODULE = "phased.worker"
MIB = 1 << 20
ENGINE_CARD = 16 << 30
"""Bytes of the card that trainer and engine share."""
ROUNDS = {"grpo": 4, "pool": 4, "trainer": 4, "processes": 100}
QUICK_ROUNDS = {"grpo": 3, "pool": 3, "trainer": 3, "processes": 12}


def measure(stub: Stub, program: str, contender: str, *, quick: bool) -> Row:
    """Return the row of a program under a contender."""
    job = PhasedJob(
        program=program,
        rounds=(QUICK_ROUNDS if quick else ROUNDS)[program],
        contender=contender,
        card=ENGINE_CARD if program == "processes" else LARGE_CARD,
        small=quick,
    )
    with tempfile.TemporaryDirectory() as folder:
        job = replace(job, card_file=f"{folder}/card" if program == "processes" else "")
        row = row_of(job, lambda: stub.ask(job, MODULE), "program", "rounds")
    if row.get("caches"):
        middle = len(row["files"]) // 2
        row["smallest_cache"] = min(row["caches"])
        row["more_files"] = row["files"][-1] - row["files"][middle]
        row["more_idle"] = row["idle"][-1] - row["idle"][middle]
        row["files"], row["idle"], row["caches"] = row["files"][-1], row["idle"][-1], None
    show(row)
    return row


def table(rows: list[Row]) -> str:
    """Return both tables as Markdown."""
    peaks = [["program", "contender", "rollout", "scoring", "training", "on the host"]]
    for row in (one for one in rows if one["program"] != "processes"):
        cells = [_mib(row["peaks"].get(name)) for name in ("rollout", "scoring", "training")]
        peaks.append([row["program"], CONTENDERS[row["contender"]], *cells, _mib(row["host"])])
    shared = [["contender", "smallest cache", "peak of training", "on the host"]]
    shared[0] += ["held after training", "descriptors", "more in the second half"]
    for row in (one for one in rows if one["program"] == "processes"):
        if row["out_of_memory"]:
            shared.append([CONTENDERS[row["contender"]], "out of memory"])
            continue
        sizes = [row["smallest_cache"], row["peaks"]["training"], row["host"], row["idle"]]
        grown = f"{row['more_files']}, {_mib(row['more_idle'])} MiB"
        name = CONTENDERS[row["contender"]]
        shared.append([name, *map(_mib, sizes), str(row["files"]), grown])
    return f"{markdown(peaks, right=range(2, 6))}\n\n{markdown(shared, right=range(1, 7))}"


def _mib(size: int | None) -> str:
    return "" if size is None else f"{size / MIB:,.0f}"


def parse() -> argparse.Namespace:
    parser = stub_parser(__doc__)
    parser.add_argument("--program", choices=PROGRAMS, action="append", help="repeatable")
    parser.add_argument("--contender", choices=CONTENDERS, action="append", help="repeatable")
    return parser.parse_args()


def main() -> None:
    arguments = parse()
    if print_earlier("phases", arguments, lambda found: table(found["rows"])):
        return
    stub = Stub.build(arguments.python, ROOT / arguments.stub)
    rows = []
    for program in arguments.program or PROGRAMS:
        for contender in arguments.contender or CONTENDERS:
            rows.append(measure(stub, program, contender, quick=arguments.quick))
            write_result("phases", {"rows": rows}, arguments.output, quick=arguments.quick)
    print(table(rows))


if __name__ == "__main__":
    main()
