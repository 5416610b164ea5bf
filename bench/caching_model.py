"""Reserved memory of training loops: PyTorch's genuine allocator against pgmo's model of it.

Needs no GPU: the real CUDA build of PyTorch runs on the stub CUDA runtime of pgmo/rehearsal.

    python bench/caching_model.py --python .venv-fakecuda/bin/python
    python bench/caching_model.py --python .venv-fakecuda/bin/python --quick
    python bench/caching_model.py --table

Each network is trained under each setting, all of its requests recorded. `model` replays the
requests of that very run; `predicted` replays those of the run under default settings, and so says
before anyone tries it what the other setting would reserve. `requests_off` counts the requests
after which the model has not reserved exactly what PyTorch had.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from _machine import add_common_options, result_path, write_result
from workloads.launch import ROOT, Stub

sys.path.insert(0, str(ROOT))

from _replayed_trace import simulate_trace

from pgmo.profiler.caching.settings import AllocatorSettings
from pgmo.profiler.trace import Event, Trace
from pgmo.units import format_bytes

GIB = 1 << 30
CARD = 64 * GIB
SETTINGS = (
    "",
    "expandable_segments:True",
    "roundup_power2_divisions:[32:256,64:128,256:64,>:32]",
    "max_split_size_mb:128",
)
NETWORKS = {"gpt": 4, "resnet": 32, "unet": 8, "seq2seq": 32, "prefetch": 16}
LENGTHS = {"gpt": "any", "seq2seq": "any"}
SHORT_OF_MEMORY = ("gpt",)
COLUMNS = ("kind", "address", "size", "stream")


@dataclass(frozen=True)
class Run:
    """One training loop; `fraction` of the card (bytes) is what it may use."""

    network: str
    conf: str = ""
    iterations: int = 6
    card: int = CARD
    fraction: float | None = None
    small: bool = False

    @property
    def settings(self) -> AllocatorSettings:
        """Those of the model."""
        limit = "" if self.fraction is None else f"per_process_memory_fraction:{self.fraction}"
        return AllocatorSettings.from_text(",".join(filter(None, (self.conf, limit))))


def train(run: Run, output: str) -> dict[str, Any]:
    """Trains on the stub (in a process of its own), and writes what the allocator did."""
    import torch
    from workloads import Shape, create
    from workloads.job import Job

    torch.cuda.init()
    if run.fraction is not None:
        torch.cuda.set_per_process_memory_fraction(run.fraction)
    capacity = torch.cuda.mem_get_info()[0]
    torch.cuda.memory._record_memory_history("all", context=None, max_entries=10_000_000)
    error = ""
    network = "resnet" if run.network == "prefetch" else run.network
    job = Job(
        network,
        lengths=LENGTHS.get(network, "fixed"),
        batch=NETWORKS[run.network],
        iterations=run.iterations,
        small=run.small,
    )
    loader = torch.cuda.Stream()
    try:
        workload = create(network, Shape(job.batch, small=run.small))
        for length in job.drawn_lengths:
            if run.network == "prefetch":
                with torch.cuda.stream(loader):
                    images = torch.empty(job.batch, 3, 224, 224, device="cuda")
                    batch = images.to(torch.float16)
                for tensor in (images, batch):
                    tensor.record_stream(torch.cuda.default_stream())
            workload.step(length)
    except torch.OutOfMemoryError as problem:
        error = str(problem)
    stats = torch.cuda.memory_stats()
    kinds = {kind.name.lower(): int(kind) for kind in Event}
    events = torch.cuda.memory._snapshot()["device_traces"][0]
    rows = [
        (kinds[e["action"]], 0 if e["action"] == "oom" else e["addr"], e["size"], e["stream"])
        for e in events
        if e["action"] in kinds
    ]
    columns = zip(COLUMNS, zip(*rows, strict=True), strict=True)
    np.savez(output, **{name: np.array(values) for name, values in columns})
    return {
        "reserved": stats["reserved_bytes.all.peak"],
        "active": stats["active_bytes.all.peak"],
        "retries": stats["num_alloc_retries"],
        "out_of_memory": error,
        "capacity": capacity,
        "torch": str(torch.__version__),
    }


def measure(stub: Stub, run: Run) -> tuple[dict[str, Any], Trace]:
    """Trains in a process of its own; the genuine figures, and the trace."""
    with tempfile.TemporaryDirectory() as folder:
        output = str(Path(folder) / "trace.npz")
        done = subprocess.run(
            [str(stub.out / "run"), stub.python, __file__, "--train", json.dumps(asdict(run))],
            env={
                **os.environ,
                "OUTPUT": output,
                "PYTHONPATH": os.pathsep.join([str(ROOT / "bench"), str(ROOT)]),
                "PYTORCH_ALLOC_CONF": run.conf,
                "FAKECUDA_BYTES": str(run.card),
                "FAKECUDA_DEVICES": "1",
                "FAKECUDA_COPY_LIMIT": str(1 << 16),
                "OMP_NUM_THREADS": "1",
            },
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise RuntimeError(f"{run}: {done.stderr}")
        with np.load(output) as columns:
            given = {name: columns[name] for name in COLUMNS}
    given["stream"] = given["stream"].astype(np.uint64)
    return json.loads(done.stdout.splitlines()[-1]), Trace.from_columns(**given)


def compare(run: Run, genuine: dict[str, Any], trace: Trace, usual: Trace) -> dict[str, Any]:
    """The row of one run; `usual` is the trace under default settings."""
    # A limit that the program sets is a part of the whole card, anything else of what is free.
    capacity = run.card if run.fraction is not None else genuine["capacity"]
    model = simulate_trace(trace, run.settings, capacity)
    predicted = simulate_trace(usual, run.settings, capacity)
    taken = np.isin(trace.kind, (Event.SEGMENT_ALLOC, Event.SEGMENT_MAP)) * trace.size
    given = np.isin(trace.kind, (Event.SEGMENT_FREE, Event.SEGMENT_UNMAP)) * trace.size
    curve = np.cumsum(taken - given)[trace.kind == Event.ALLOC]
    return {
        **asdict(run),
        **genuine,
        "requests": trace.requests,
        "model": model.peak_reserved,
        "model_active": model.peak_active,
        "model_retries": model.retries,
        "model_fails_at": model.failed,
        "requests_off": int((model.reserved != curve).sum()),
        "predicted": predicted.peak_reserved,
    }


def runs(*, quick: bool) -> Iterator[list[Run]]:
    """For each network the run under default settings, then the others."""
    for network in ("gpt",) if quick else NETWORKS:
        base = Run(network, small=quick)
        yield [replace(base, conf=conf) for conf in (SETTINGS[:2] if quick else SETTINGS)]


def short_of_memory(base: Run, usual: dict[str, Any]) -> list[Run]:
    """Runs on cards where what is cached has to be given back: between the two peaks."""
    context = usual["card"] - usual["capacity"]
    card = (usual["active"] + usual["reserved"]) // 2 + context
    fraction = 0.9
    limited = int((card - context) / fraction)
    collecting = "garbage_collection_threshold:0.6"
    return [
        replace(base, card=card),
        replace(base, card=card, conf="expandable_segments:True"),
        replace(base, card=limited, conf=collecting, fraction=fraction),
    ]


def table(rows: list[dict[str, Any]]) -> str:
    """The rows in Markdown."""
    lines = [
        "| network | setting | card | requests | PyTorch reserves | model | requests off "
        "| predicted |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        off = [100 * (row[key] / row["reserved"] - 1) for key in ("model", "predicted")]
        setting = row["conf"] or "default"
        if row["fraction"]:
            setting += f", limit {row['fraction']:.0%}"
        lines.append(
            f"| {row['network']} | {setting} | {format_bytes(row['card'])} | {row['requests']:,} "
            f"| {format_bytes(row['reserved'])} | {off[0]:+.2f} % | {row['requests_off']:,} "
            f"| {off[1]:+.2f} % |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", default=sys.executable, help="one with a CUDA build of torch")
    parser.add_argument("--stub", type=Path, default=ROOT / "build/fakecuda")
    add_common_options(parser)
    parser.add_argument("--table", action="store_true", help="print the kept result and stop")
    parser.add_argument("--train", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.train:
        print(json.dumps(train(Run(**json.loads(args.train)), os.environ["OUTPUT"])))
        return
    kept = result_path("caching_model", args.output)
    if args.table:
        print(table(json.loads(kept.read_text(encoding="utf-8"))["rows"]))
        return
    stub = Stub.build(args.python, args.stub)
    rows = []
    for series in runs(quick=args.quick):
        usual: Trace | None = None
        for run in series:
            genuine, trace = measure(stub, run)
            usual = usual or trace
            rows.append(compare(run, genuine, trace, usual))
            print(table(rows[-1:]).splitlines()[-1], file=sys.stderr)
        if series[0].network in SHORT_OF_MEMORY:
            first = next(row for row in rows if row["network"] == series[0].network)
            for run in short_of_memory(series[0], first):
                genuine, trace = measure(stub, run)
                rows.append(compare(run, genuine, trace, usual))
                print(table(rows[-1:]).splitlines()[-1], file=sys.stderr)
    write_result("caching_model", {"rows": rows}, args.output, quick=args.quick)
    print(table(rows))


if __name__ == "__main__":
    main()
