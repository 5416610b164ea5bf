"""What it takes to capture and plan a model of alike blocks: one traced for all, or each.

    python bench/recompute_blocks.py                    # minutes
    python bench/recompute_blocks.py --quick            # few blocks, to see that it works
    python bench/recompute_blocks.py --table            # the table of the README

Models of transformers of 24 layers. Each figure is of a process of its own, whose first capture it
is: seconds of the processor from the call of `pgmo.recompute` to the planned step, without imports.
The two ways take turns. The digest is of the graph that is planned for, and of what runs again, and
where: it has to be the same in both. `--against` also measures an earlier version.
"""

import argparse
import hashlib
import json
import os
import statistics
import subprocess
import sys
import time
from typing import Any

os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # else each profile is announced

import torch
from _machine import add_common_options, result_path, write_result
from workloads.deep import NAMES, create

import pgmo
import pgmo.recompute.apply  # what it imports is imported once, whatever is captured

WAYS = ("alike", "each", "former")


def measure(name: str, way: str, layers: int) -> dict[str, Any]:
    """What this process takes for its first capture."""
    if way == "each":
        from pgmo.recompute.compiled import blocks

        blocks.LEAST = 1 << 20  # nothing is there so many times
    model, batch = create(name, layers)
    begin = time.process_time()
    _, plan = pgmo.recompute(model, batch, budget=0.7)
    seconds = time.process_time() - begin
    schedule = plan.schedule
    digest = hashlib.sha256(repr((plan.graph.operations, plan.graph.values)).encode())
    digest.update(schedule.operations.tobytes() + schedule.again.tobytes())
    return {
        "seconds": seconds,
        "operations": len(plan.graph.operations),
        "peak": plan.peak,
        "plan": digest.hexdigest(),
    }


def _row(name: str, layers: int, times: int, against: str | None) -> dict[str, Any]:
    """The ways of one model, in turns."""
    ways = WAYS if against else WAYS[:2]
    found: dict[str, list[dict[str, Any]]] = {way: [] for way in ways}
    for _ in range(times):
        for way, runs in found.items():
            command = [sys.executable, __file__, "--process", name, way, str(layers)]
            there = dict(os.environ)
            if way == "former" and against:
                there["PYTHONPATH"] = against
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=there)
            runs.append(json.loads(done.stdout.splitlines()[-1]))
    seconds = {way: [run["seconds"] for run in runs] for way, runs in found.items()}
    ours = statistics.median(seconds["alike"])
    row = {
        "model": name,
        "layers": layers,
        "operations": found["alike"][0]["operations"],
        "seconds": seconds,
        "over": {way: ours / statistics.median(seconds[way]) for way in ways[1:]},
        "same_plan": len({run["plan"] for way in WAYS[:2] for run in found[way]}) == 1,
    }
    print(row, file=sys.stderr, flush=True)
    return row


def table(rows: list[dict[str, Any]]) -> str:
    """One table in Markdown."""
    lines = [
        "| model | layers | operations | one for all | each by itself | ratio | same plan "
        "| earlier version | ratio |",
        "|" + " --- |" * 9,
    ]
    for row in rows:
        alike, each, former = (row["seconds"].get(way) for way in WAYS)
        cells = [row["model"], str(row["layers"]), f"{row['operations']:,}"]
        cells += [f"{statistics.median(seconds):.1f} s" for seconds in (alike, each)]
        cells += [f"{row['over']['each']:.2f}", "yes" if row["same_plan"] else "no"]
        if former:
            cells += [f"{statistics.median(former):.1f} s", f"{row['over']['former']:.2f}"]
        lines.append(f"| {' | '.join([*cells, *[''] * (9 - len(cells))])} |")
    return "\n".join(lines)


def main() -> None:
    """Measures the models and writes the result."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--models", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--times", type=int, default=3, help="processes for each way")
    parser.add_argument("--against", help="a built checkout of an earlier version, also measured")
    parser.add_argument("--process", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--table", action="store_true", help="print the table of the results")
    add_common_options(parser)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.process:
        name, way, layers = arguments.process
        print(json.dumps(measure(name, way, int(layers))))
        return
    if arguments.table:
        path = result_path("recompute_blocks", arguments.output)
        print(table(json.loads(path.read_text(encoding="utf-8"))["rows"]))
        return
    rows = []
    for name in NAMES[:1] if arguments.quick else arguments.models:
        layers, times = (4, 1) if arguments.quick else (24, arguments.times)
        rows.append(_row(name, layers, times, arguments.against))
        result = {"torch": torch.__version__, "rows": rows}
        write_result("recompute_blocks", result, arguments.output, quick=arguments.quick)
    print(table(rows))


if __name__ == "__main__":
    main()
