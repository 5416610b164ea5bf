"""Device memory of programs with CUDA graphs and with memory pools.

Needs no GPU: the real CUDA build of PyTorch runs on the stub CUDA runtime of pgmo/rehearsal.

    python bench/private_pools.py --python .venv-fakecuda/bin/python
    python bench/private_pools.py --python .venv-fakecuda/bin/python --program layers --program bert
    python bench/private_pools.py --python .venv-fakecuda/bin/python --contender pgmo_run --update
    python bench/private_pools.py --table

Each program runs under every contender, in a process of its own on a card of 141 GiB. A figure is
the card's peak in MiB over the whole process, including memory outside of PyTorch's allocator. The
contenders are PyTorch's allocator, expandable segments, pgmo's pages alone, and `pgmo run` three
times: by default, with graphs that share pages (`PGMO_GRAPHS=1`), and over expandable segments.
`eager` is PyTorch's allocator without graphs. Programs with pools use no graphs, so `eager` and the
last two kinds of `pgmo run` do not run them.

`need` is computed from a recording of the program under PyTorch's allocator: the largest sum
at one moment of three figures: live bytes outside of graphs' pools, bytes that survive in the pools
captured so far, and the largest temporaries of one of these pools. For programs with memory pools,
`need` is the peak of live bytes. The last column of the table is the lowest peak of `pgmo run` over
`need`.

The programs are those of `tests/fakecuda/graphs` and `tests/fakecuda/private_pools`, and models of
transformers with graph trees (`programs/graph_trees.py`), which need the package transformers.
"""

import argparse
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from support.machine import print_earlier, result_path, show, write_result
from support.stub_jobs import Row, earlier_rows, replaced, stub_parser
from workloads.columns import markdown
from workloads.job import LARGE_CARD, process_settings
from workloads.launch import ROOT, Stub

from pgmo.profiler.importers.formats import read_file
from pgmo.profiler.trace_blocks import live_bytes
from pgmo.report.findings.captures import blocks_of_pools
from pgmo.report.findings.pools import find_private_pools

GRAPHED = "tests/fakecuda/graphs/graphed_programs.py"
POOLS = "tests/fakecuda/private_pools/pool_programs.py"
TREES = "bench/programs/graph_trees.py"

PAGES_ALONE = """
import runpy, sys, torch, pgmo
torch.cuda.memory.change_current_allocator(pgmo.torch_allocator())
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
RECORDED = """
import runpy, sys, torch
path, sys.argv = sys.argv[1], sys.argv[2:]
torch.cuda.memory._record_memory_history(context=None, max_entries=10_000_000)
runpy.run_path(sys.argv[0], run_name="__main__")
torch.cuda.memory._dump_snapshot(path)
"""
PGMO_RUN = ("-m", "pgmo", "run", "-q", "--no-tags")


@dataclass(frozen=True)
class Program:
    """A script of this repository, with its arguments.

    Args:
        what: description for the table.
        command: path and arguments.
        quick: further arguments for a small run.
        interleaved: whether the activations of all pools are alive at once.
    """

    what: str
    command: tuple[str, ...]
    quick: tuple[str, ...]
    interleaved: bool = False

    @property
    def graphs(self) -> bool:
        return self.command[0] != POOLS


def _trees(model: str, what: str) -> Program:
    quick = ("--layers", "1", "--width", "64", "--batch", "1", "--steps", "4")
    return Program(f"{what} with graph trees, two lengths", (TREES, model), quick)


PROGRAMS = {
    "sizes": Program(
        "training with `make_graphed_callables` at 11 image sizes",
        (GRAPHED, "sizes"),
        ("--number", "2"),
    ),
    "inference": Program(
        "a decoder at 16 batch sizes, 200 replays", (GRAPHED, "inference"), ("--number", "2")
    ),
    "beside": Program(
        "training between the replays of that decoder", (GRAPHED, "beside"), ("--number", "2")
    ),
    "layers": Program(
        "24 layers, a graph of each pass of each layer",
        (GRAPHED, "layers"),
        ("--number", "2", "--width", "384", "--length", "64"),
        interleaved=True,
    ),
    "trees": Program(
        "a decoder with graph trees, two lengths", (GRAPHED, "trees"), ("--number", "1")
    ),
    "gpt2": _trees("gpt2", "GPT-2"),
    "bert": _trees("bert", "BERT"),
    "llama": _trees("llama", "Llama"),
    "convert": Program(
        "weights converted in a live pool, then a cache outside",
        (POOLS, "convert"),
        ("--number", "2"),
    ),
    "layerwise": Program(
        "each layer converted after it is loaded", (POOLS, "layerwise"), ("--number", "2")
    ),
    "alternate": Program(
        "generating in one pool, training in another", (POOLS, "alternate"), ("--number", "1")
    ),
    "after_eager": Program(
        "2 GiB freed outside, then 2 GiB in a pool", (POOLS, "after_eager"), ("--number", "2")
    ),
}


@dataclass(frozen=True)
class Contender:
    """Allocator and settings under which a program runs.

    Args:
        prefix: arguments of Python before the script.
        settings: the allocator of PyTorch, as in `workloads.job.CONTENDERS`.
        share: value of `PGMO_GRAPHS`; with "1", graphs share pages.
        for_graphs: whether the contender runs only programs with graphs.
        suffix: further arguments of the script.
    """

    prefix: tuple[str, ...] = ()
    settings: str = "default"
    share: str = "0"
    for_graphs: bool = False
    suffix: tuple[str, ...] = ()


CONTENDERS = {
    "default": Contender(),
    "expandable": Contender(settings="expandable"),
    "pages": Contender(("-c", PAGES_ALONE)),
    "pgmo_run": Contender(PGMO_RUN),
    "pgmo_run_shared": Contender(PGMO_RUN, share="1", for_graphs=True),
    "pgmo_run_expandable": Contender(PGMO_RUN, settings="expandable", for_graphs=True),
    "eager": Contender(for_graphs=True, suffix=("--eager",)),
}
HEADERS = (
    "default",
    "expandable segments",
    "pages alone",
    "**pgmo run**",
    "**pgmo run**, graphs share pages",
    "pgmo run over expandable segments",
    "eager",
    "need",
    "**pgmo run** over need",
)


NEED = "need"
"""Name of the contender in rows with the bytes that a program needs."""


def run_recorded(stub: Stub, name: str, quick: bool) -> Row:
    """Return a row with the bytes that a program needs, or with the reason of a failure."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "snapshot.pickle")
        row = run(stub, name, NEED, quick, Contender(("-c", RECORDED, str(path))))
        return row if "failed" in row else row | {"peak": needed(path, PROGRAMS[name])}


def needed(path: Path, program: Program) -> int:
    """Return the bytes that a recorded program needs, see `need` above."""
    trace = read_file(path)[0].trace
    live = live_bytes(trace)
    if not program.graphs:
        return int(live.max())
    found = find_private_pools(trace)
    assert found is not None, "the program captured no graph"
    pools = {one.pool: one for one in found.pools}
    ids = sorted({one.pool for one in trace.private})
    blocks = blocks_of_pools(trace, tuple(ids))
    inside = np.zeros(len(trace) + 1, np.int64)
    np.add.at(inside, blocks.begin, blocks.size)
    np.subtract.at(inside, blocks.end, blocks.size)
    kept, temporary = np.zeros((2, len(trace)), np.int64)
    for index, pool in enumerate(ids):
        captured, one = blocks.begin[blocks.pool == index].min(), pools[str(pool)]
        carried = one.carried if program.interleaved else 0
        kept[captured:] += one.survivors + carried
        np.maximum(temporary[captured:], one.temporaries - carried, out=temporary[captured:])
    return int((live - np.cumsum(inside[:-1]) + kept + temporary).max())


def run(stub: Stub, name: str, contender: str, quick: bool, one: Contender | None = None) -> Row:
    """Return a row with the card's peak in bytes, or with the reason of a failure."""
    program, one = PROGRAMS[name], one or CONTENDERS[contender]
    arguments = (*program.command, *(program.quick if quick else ()), *one.suffix)
    settings = process_settings(one.settings, LARGE_CARD) | {"PGMO_GRAPHS": one.share}
    del settings["FAKECUDA_COPY_LIMIT"]  # pgmo copies blocks that survive a capture
    done = stub.run((*one.prefix, *arguments), settings)
    row: Row = {"program": name, "contender": contender}
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return row | {"failed": last[:200]}
    return row | {"peak": int(done.stdout.splitlines()[-1]) << 20}


def measure(
    stub: Stub, names: Iterable[str], contenders: Iterable[str], quick: bool, jobs: int
) -> list[Row]:
    """Return a row for each program and each contender that runs it, in this order."""
    cases = [
        (name, contender)
        for name in names
        for contender in contenders
        if contender == NEED or PROGRAMS[name].graphs or not CONTENDERS[contender].for_graphs
    ]

    def run_one(case: tuple[str, str]) -> Row:
        name, contender = case
        recorded = contender == NEED
        row = run_recorded(stub, name, quick) if recorded else run(stub, *case, quick)
        show(row)
        return row

    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(run_one, cases))


def table(rows: Iterable[Row]) -> str:
    """Return peaks in MiB as Markdown, and the lowest of `pgmo run` over `need`."""
    found = {(row["program"], row["contender"]): row for row in rows}
    lines = [["program", *HEADERS]]
    for name, program in PROGRAMS.items():
        cells = [_cell(found.get((name, contender), {})) for contender in (*CONTENDERS, NEED)]
        if any(cells):
            lines.append([f"`{name}`: {program.what}", *cells, _ratio(found, name)])
    return markdown(lines)


def _ratio(found: dict[tuple[str, str], Row], name: str) -> str:
    ours = [found.get((name, one), {}).get("peak") for one in ("pgmo_run", "pgmo_run_shared")]
    needed = found.get((name, NEED), {}).get("peak")
    return f"{min(filter(None, ours)) / needed:.3f}" if needed and any(ours) else ""


def _cell(row: Row) -> str:
    if "failed" in row:
        return "failed"
    return f"{row['peak'] >> 20:,}" if row else ""


def parse() -> argparse.Namespace:
    parser = stub_parser(__doc__)
    parser.add_argument("--program", choices=PROGRAMS, action="append", help="repeatable")
    parser.add_argument(
        "--contender", choices=(*CONTENDERS, NEED), action="append", help="repeatable"
    )
    parser.add_argument("--update", action="store_true", help="keep other rows of the result")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    return parser.parse_args()


def main() -> None:
    arguments = parse()
    if print_earlier("private_pools", arguments, lambda found: table(found["rows"])):
        return
    stub = Stub.build(arguments.python, ROOT / arguments.stub)
    contenders = arguments.contender or (*CONTENDERS, NEED)
    names = arguments.program or PROGRAMS
    rows = measure(stub, names, contenders, arguments.quick, arguments.jobs)
    if arguments.update:
        path = result_path("private_pools", arguments.output, quick=arguments.quick)
        rows = replaced(earlier_rows(path), rows, "program", "contender")
    write_result("private_pools", {"rows": rows}, arguments.output, quick=arguments.quick)
    print(table(rows))


if __name__ == "__main__":
    main()
