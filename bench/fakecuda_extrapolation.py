"""A batch that cannot be recorded on its card, begun from what small ones predict.

Needs no GPU: the real CUDA build of PyTorch runs on the stub CUDA runtime of pgmo/rehearsal.

    python bench/fakecuda_extrapolation.py --python .venv-fakecuda/bin/python
    python bench/fakecuda_extrapolation.py --python .venv-fakecuda/bin/python --quick

A GPT of the size of GPT-2 medium that recomputes its blocks is trained on a 16 GiB card. The
default allocator and expandable segments are asked for the largest batch that they train, and what
becomes of the batch at which pgmo begins. pgmo records three iterations each at batches 2, 4 and 8
on such a card, in processes of their own, and begins at the large batch from what
`pgmo.extrapolate` makes of them: its first iteration is served from slots already.
`first_hit_bytes_rate` is the share of that iteration's planned bytes that were; optimizer state has
no slots.
"""

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from _machine import add_common_options, write_result
from workloads.job import EXTRAPOLATED, Job, Outcome
from workloads.launch import ROOT, Stub
from workloads.search import largest

GIB = 1 << 30


def measure(stub: Stub, job: Job, contenders: list[str], search: bool) -> list[dict[str, Any]]:
    """One row per contender: the job's batch, and the largest one."""
    rows = []
    for contender in contenders:
        wanted = replace(job, contender=contender)
        row = {"allocator": contender, "batch": job.batch, **described(stub.run(wanted))}
        if search:

            def trains(batch: int, wanted: Job = wanted) -> bool:
                return not stub.run(replace(wanted, batch=batch)).out_of_memory

            row["largest_batch"] = largest(trains, guess=job.batch - 1)
        rows.append(row)
        outcome = f"out of memory in iteration {row['trained'] + 1}" if row["error"] else "trains"
        first = row["first_hit_bytes_rate"]
        served = "" if first is None else f", {first:.2%} from slots in the first iteration"
        print(
            f"{contender:18} batch {job.batch}: {outcome}{served}; "
            f"largest {row.get('largest_batch', 'not sought')}",
            file=sys.stderr,
        )
    return rows


def described(outcome: Outcome) -> dict[str, Any]:
    found = outcome.as_dict()
    found["error"] = found["error"].partition("\n")[0]
    return found


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--python", default=sys.executable, help="one with the CUDA torch")
    parser.add_argument("--stub", type=Path, default=ROOT / "build/fakecuda")
    parser.add_argument("--batch", type=int, default=38, help="what pgmo begins at (default: 38)")
    add_common_options(parser)
    return parser.parse_args()


def main() -> None:
    args = parse()
    stub = Stub.build(args.python, args.stub.resolve())
    job = Job(
        "gpt",
        recompute=True,
        batch=args.batch,
        iterations=6 if args.quick else 20,
        card=16 * GIB,
        small=args.quick,
        # Kernels of the tiny network get buffers from 16 on.
        recorded_at=(2, 4, 8, 16) if args.quick else (2, 4, 8),
    )
    contenders = ["default"] if args.quick else ["default", "expandable", "pgmo"]
    rows = measure(stub, job, [*contenders, EXTRAPOLATED], search=not args.quick)
    about = {"card": job.card, "network": job.network, "recorded_at": job.recorded_at}
    result = {**about, "rows": rows}
    write_result("fakecuda_extrapolation", result, args.output, quick=args.quick)


if __name__ == "__main__":
    main()
