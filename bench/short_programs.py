"""Short programs on the CPU: what pgmo adds to their start and to their peak, and ten steps.

    python bench/short_programs.py --repetitions 5
    python bench/short_programs.py --quick          one program, three steps

Every run is a fresh process that trains one of six small networks (`_short_networks.py`): plain,
inside of `pgmo.optimize()`, and as a script under `pgmo run`. The three are run one after the
other, in alternating order. Reported are medians over repetitions of

- the start: processor seconds up to the first step, of which importing pgmo and opening its
  session are told apart, against all of a plain process's start;
- the peak of the process (VmHWM), and what of it is there when the first step begins;
- ten steps: processor seconds and page faults from the first step to the end of the last.

Losses have to be the same to the last bit.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from _agreement import Agreement, agreement
from _machine import add_common_options, write_result

HERE = Path(__file__).resolve()
WAYS = ("plain", "session", "run")
MEBIBYTE = 1 << 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--program", action="append", help="one of them; several times for more")
    parser.add_argument("--worker", nargs=2, metavar=("PROGRAM", "WAY"), help=argparse.SUPPRESS)
    add_common_options(parser)
    args = parser.parse_args()
    if args.worker:
        work(*args.worker, args.steps)
        return
    if args.quick:
        args.repetitions, args.steps, args.program = 1, 3, ["lstm"]
    rows = []
    launch("lstm", "run", 1)  # compiles what is not compiled yet
    for program in args.program or ("nanogpt", "unet", "dcgan", "mnist", "lstm", "vit"):
        runs: dict[str, list[dict[str, Any]]] = {way: [] for way in WAYS}
        for repetition in range(args.repetitions):
            for way in WAYS if repetition % 2 == 0 else reversed(WAYS):
                runs[way].append(launch(program, way, args.steps))
        rows.append(summarise(program, runs))
        print(told(rows[-1]), file=sys.stderr)
    result = {
        "repetitions": args.repetitions,
        "steps": args.steps,
        "threads": 1,
        "claims": {
            "start_share": {
                "most": max(row[way]["start_share"] for row in rows for way in WAYS[1:])
            },
            "peak_over_plain_mib": {
                "most": max(row[way]["peak_over_plain_mib"] for row in rows for way in WAYS[1:])
            },
        },
        "rows": rows,
    }
    write_result("short_programs", result, args.output, quick=args.quick)


def launch(program: str, way: str, steps: int) -> dict[str, Any]:
    """Runs one program in a process of its own."""
    script = [str(HERE), "--worker", program, way, "--steps", str(steps)]
    before = ["-m", "pgmo", "run", "--quiet", "--device", "cpu"] if way == "run" else []
    environment = {
        # As installed: pgmo's bytecode is kept, as torch's is.
        **{key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"},
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(
            [str(HERE.parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
        ),
    }
    done = subprocess.run(
        [sys.executable, "-W", "ignore", *before, *script],
        env=environment,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise SystemExit(f"{program}, {way}: {done.stderr[-2000:]}")
    line = next(one for one in done.stdout.splitlines() if one.startswith('{"losses"'))
    found: dict[str, Any] = json.loads(line)
    return found


def work(program: str, way: str, steps: int) -> None:
    """Trains, in a fresh process; prints what it took."""
    import torch

    imported = time.process_time()
    added = 0.0
    torch.set_num_threads(1)
    torch.manual_seed(0)
    from _short_networks import PROGRAMS

    step, session = PROGRAMS[program](), None
    if way == "session":
        began = time.process_time()
        import pgmo

        session = pgmo.optimize(device="cpu").__enter__()
        added = time.process_time() - began
    start, faults = time.process_time(), _faults()
    peak_at_start = _peak()
    losses = []
    for number in range(steps):
        losses.append(step(number))
        if session is not None:
            session.step()
    print(
        json.dumps(
            {
                "losses": [loss.item().hex() for loss in losses],
                "torch_seconds": imported,
                "start_seconds": start,
                "added_seconds": added,
                "steps_seconds": time.process_time() - start,
                "faults": _faults() - faults,
                "peak_at_start": peak_at_start,
                "peak": _peak(),
            }
        )
    )


def _peak() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise SystemExit("this system does not tell the peak of a process")


def _faults() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def summarise(program: str, runs: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Medians of each way, and what each is beside plain."""
    first, *others = (run["losses"] for way in WAYS for run in runs[way])
    agreed = agreement(first, others, lambda: launch(program, WAYS[0], len(first))["losses"])
    if agreed is Agreement.DIFFERENT:
        raise SystemExit(f"{program}: the losses differ")
    if agreed is Agreement.PLAIN_VARIES:
        print(f"{program}: {agreed}", file=sys.stderr)

    def median(way: str, key: str) -> float:
        return statistics.median(run[key] for run in runs[way])

    row: dict[str, Any] = {"program": program}
    for way in WAYS:
        start = median(way, "start_seconds")
        added = median(way, "added_seconds") if way == "session" else start
        added -= 0 if way == "session" else median("plain", "start_seconds")
        row[way] = {
            "start_seconds": start,
            "start_share": added / median("plain", "start_seconds"),
            "start_added_mib": (median(way, "peak_at_start") - median("plain", "peak_at_start"))
            / MEBIBYTE,
            "peak_mib": median(way, "peak") / MEBIBYTE,
            "peak_over_plain_mib": (median(way, "peak") - median("plain", "peak")) / MEBIBYTE,
            "steps_seconds": median(way, "steps_seconds"),
            "steps_over_plain": median(way, "steps_seconds") / median("plain", "steps_seconds"),
            "faults": median(way, "faults"),
        }
    return row


def told(row: dict[str, Any]) -> str:
    """One line for each way that is not plain."""
    lines = []
    for way in WAYS[1:]:
        one = row[way]
        lines.append(
            f"{row['program']:8}{way:8} start {one['start_share']:+.1%} "
            f"{one['start_added_mib']:+.1f} MiB, "
            f"peak {one['peak_mib']:.0f} MiB ({one['peak_over_plain_mib']:+.1f}), "
            f"steps {one['steps_over_plain']:.2f}, faults {one['faults']:,.0f}"
            f" (plain {row['plain']['faults']:,.0f})"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
