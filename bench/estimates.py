"""What fake tensors say of a training step's memory, and what PyTorch's real allocator gives it.

    python bench/estimates.py --python .venv-fakecuda/bin/python --cpu .venv/bin/python
    python bench/estimates.py ... --quick                  # one model, to see that it works
    python bench/estimates.py ... --models GPT-2 ResNet-50 # some of them
    python bench/estimates.py --unseen ...                 # others, from which uncertainty follows
    python bench/estimates.py --mended ...                 # these, once they are unseen no more
    python bench/estimates.py --table                      # the table of the README

Thirty models with random weights, three steps of forward pass, backward pass and AdamW. Measured is
the CUDA build of PyTorch on the stub runtime, with the default allocator; estimated is a CPU build.
Errors are those of the peak of what tensors hold, and of what the modelled allocator reserves.
Seconds of an estimate are those of building the model and three steps; `plain` is one step of the
same model on the CPU, the second one. `pip install transformers timm torchvision diffusers peft` in
both environments.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from _machine import add_common_options, result_path, write_result
from estimated import CARD, MODELS, UNSEEN, load
from workloads.launch import ROOT, Stub
from workloads.scripts import require

from pgmo.cards import find
from pgmo.rehearsal import rehearse

QUICK = ("DistilBERT",)
_PATHS = [str(ROOT / "bench"), str(ROOT)]
Row = dict[str, Any]


def measured(names: Sequence[str], stub: Stub) -> dict[str, Row]:
    """What the stub's allocator gave, by model."""
    command = [str(stub.out / "run"), stub.python]
    found = {}
    for name in names:
        if load()[name].by_values:
            found[name] = _rehearsed(name, stub.python)
        else:
            found[name] = _ask(command, "measured", [name]).get(name, {})
    return found


def _rehearsed(name: str, python: str) -> Row:
    """The same of a model whose sizes depend on values, which a rehearsal makes up."""
    answer = rehearse(
        ["-m", "estimated.worker", "measured", name],
        card=find(CARD),
        way="default",
        environment={"PYTHONPATH": os.pathsep.join(_PATHS)},
        python=python,
    )
    if not answer.fits:
        return {"failed": answer.reason or answer.out_of_memory}
    return {
        "allocated": answer.allocated_peak,
        "reserved": answer.reserved_peak,
        "notes": list(answer.notes),
    }


def measured_before(path: Path) -> dict[str, Row]:
    """The same from an earlier result: sizes on the stub are the same in every run."""
    rows = json.loads(path.read_text())["rows"]
    return {row["model"]: row["measured"] for row in rows if "measured" in row}


def measure(
    names: Sequence[str], truth: dict[str, Row], cpu: str, timed: Sequence[str]
) -> list[Row]:
    """One row for each model; `failed` says what went wrong."""
    found = {
        "measured": truth,
        "estimated": _ask([cpu], "estimated", names),
        "plain": _ask([cpu], "plain", timed),
    }
    rows = []
    for name in names:
        row: Row = {"model": name, "library": load()[name].library}
        for way, answers in found.items():
            if way == "plain" and name not in timed:
                continue
            row[way] = answers.get(name) or {"failed": "no answer"}
            if "failed" in row[way]:
                row["failed"] = f"{way}: {row[way]['failed']}"
        rows.append(row)
        if "failed" in row:
            continue
        for what in ("allocated", "reserved"):
            row[f"{what}_error"] = row["estimated"][what] / row["measured"][what] - 1
        if "plain" in row:
            row["steps_of_cpu"] = row["estimated"]["seconds"] / row["plain"]["seconds"]
    return rows


def _ask(command: list[str], way: str, names: Sequence[str]) -> dict[str, Row]:
    """Answers by model."""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(_PATHS),
        "FAKECUDA_COPY_LIMIT": str(1 << 20),
    }
    found = {}
    with tempfile.TemporaryFile("w+") as said:
        worker = subprocess.Popen(
            [*command, "-m", "estimated.worker", way, *names],
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
            env=environment,
        )
        assert worker.stdout is not None
        for line in worker.stdout:
            if line.startswith("{"):
                answer = json.loads(line)
                found[answer.pop("model")] = answer
                print(f"{way:10} {line[:100].strip()}", file=sys.stderr)
        code = worker.wait()
        said.seek(0)
        last = (said.read().strip().splitlines() or ["it said nothing"])[-1]
    for name in names:
        found.setdefault(name, {"failed": f"ended with exit code {code}: {last}"[:300]})
    return found


def summary(rows: list[Row]) -> dict[str, float]:
    """Median and largest error of each figure, and the median of time."""
    good = [row for row in rows if "failed" not in row]
    if not good:
        return {"models": 0}
    found: dict[str, float] = {"models": len(good)}
    for what in ("allocated", "reserved"):
        errors = [abs(row[f"{what}_error"]) for row in good]
        found[f"{what}_median"], found[f"{what}_largest"] = statistics.median(errors), max(errors)
    found["seconds_median"] = statistics.median(row["estimated"]["seconds"] for row in good)
    steps = [row["steps_of_cpu"] for row in good if "steps_of_cpu" in row]
    found["steps_of_cpu_median"] = statistics.median(steps) if steps else 0.0
    found["timed"] = len(steps)
    return found


def table(result: dict[str, Any]) -> str:
    """The table of the README."""
    lines = [
        "| model | library | allocated | error | reserved | error | estimate | steps on the CPU |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in result["rows"]:
        if "failed" in row:
            lines.append(f"| {row['model']} | {row['library']} | failed: {row['failed']} |")
            continue
        lines.append(
            f"| {row['model']} | {row['library']} "
            f"| {row['measured']['allocated'] / 2**20:.0f} MiB | {row['allocated_error']:+.2%} "
            f"| {row['measured']['reserved'] / 2**20:.0f} MiB | {row['reserved_error']:+.2%} "
            f"| {row['estimated']['seconds']:.1f} s | {_number(row.get('steps_of_cpu'))} |"
        )
    found = result["summary"]
    timed = (
        f", {_number(found['steps_of_cpu_median'])} steps on the CPU, of "
        f"{found['timed']} that were timed"
    )
    lines.append(
        f"\nMedian error {found['allocated_median']:.2%} and {found['reserved_median']:.2%}, "
        f"largest {found['allocated_largest']:.2%} and {found['reserved_largest']:.2%}, of "
        f"{found['models']} models; median time {found['seconds_median']:.1f} s"
        f"{timed if found['timed'] else ''}."
    )
    return "\n".join(lines)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--python", default=sys.executable, help="one with the CUDA torch")
    parser.add_argument(
        "--cpu", default=str(ROOT / ".venv/bin/python"), help="one with a CPU torch"
    )
    parser.add_argument("--stub", type=Path, default=ROOT / "build/fakecuda")
    parser.add_argument("--models", nargs="+", help="some of them")
    parser.add_argument(
        "--unseen", action="store_true", help="models that no rule was written with"
    )
    parser.add_argument("--mended", action="store_true", help="of these, once rules are mended")
    parser.add_argument("--timed", nargs="*", help="those whose step on the CPU is timed (all)")
    parser.add_argument("--measured", type=Path, help="an earlier result with what was measured")
    parser.add_argument("--busy", action="store_true", help="note that the machine was busy")
    parser.add_argument("--table", action="store_true", help="print the table of a result")
    add_common_options(parser)
    return parser.parse_args()


def main() -> None:
    args = parse()
    args.unseen |= args.mended
    name = "estimates" + "_unseen" * args.unseen + "_mended" * args.mended
    if args.table:
        print(table(json.loads(result_path(name, args.output).read_text())))
        return
    entries = load()
    names = args.models or (QUICK if args.quick else tuple(UNSEEN if args.unseen else MODELS))
    libraries = {entries[name].library for name in names}
    for python in {args.cpu} if args.measured else {args.cpu, args.python}:
        require(python, libraries)
    asked = [f"--{one}" for one in ("quick", "unseen", "mended") if getattr(args, one)]
    sys.argv = [sys.argv[0], *asked]  # without paths
    if args.measured:
        truth = measured_before(args.measured)
    else:
        truth = measured(names, Stub.build(args.python, args.stub.resolve()))
    rows = measure(names, truth, args.cpu, names if args.timed is None else args.timed)
    result = {"busy": args.busy, "summary": summary(rows), "rows": rows}
    write_result(name, result, args.output, quick=args.quick)


if __name__ == "__main__":
    main()
