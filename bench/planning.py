"""Share of a loop's CPU time that planning takes, with real arithmetic.

    python bench/planning.py
    python bench/planning.py --networks gpt lstm
    python bench/planning.py --quick              one network, a few iterations
    python bench/planning.py --table              the table of an earlier run

Each network of `cpu_networks` trains for a hundred iterations on the CPU with one thread and
without a saved plan, at one length. Networks with lengths also train with a new length in each
iteration. Planning is the CPU time of `session.step()`. Its share is relative to the CPU time of
all iterations, including the first one. Before each run, the same iterations run without a session,
as the control.
"""

import argparse
import random
import statistics
import time
import warnings
from typing import Any

import torch
from cpu_networks import NAMES, TITLES, VARYING_NAMES, create
from support.machine import print_earlier, show, table_parser, write_result
from workloads.columns import markdown

import pgmo

GOAL = 0.01


def measure(network: str, iterations: int, *, varies: bool) -> dict[str, float]:
    """Return the CPU seconds of one run, of its planning, and of a run without a session."""
    plain, _ = train(network, iterations, None, varies=varies)
    with warnings.catch_warnings(), pgmo.optimize(device="cpu") as session:
        warnings.simplefilter("ignore")
        seconds, planning = train(network, iterations, session, varies=varies)
    return {
        "plain_cpu_seconds": plain,
        "cpu_seconds": seconds,
        "cpu_over_plain": seconds / plain,
        "planning_seconds": planning,
        "share": planning / seconds,
        "from_slots": session.summary().run_share,
    }


def train(
    network: str, iterations: int, session: pgmo.Session | None, *, varies: bool
) -> tuple[float, float]:
    """Return the CPU seconds of all iterations, and those of `session.step()`."""
    net = create(network, 0)
    assert net.lengths is not None or not varies
    draw = random.Random(0)
    planning = 0.0
    begin = time.process_time()
    for index in range(iterations):
        length = draw.randint(*net.lengths) if varies and net.lengths else None
        net.step(net.batch(index, length))
        if session is not None:
            ended = time.process_time()
            session.step()
            planning += time.process_time() - ended
    return time.process_time() - begin, planning


def row_of(network: str, iterations: int, repetitions: int, *, varies: bool) -> dict[str, Any]:
    """Return the medians of several runs."""
    runs = [measure(network, iterations, varies=varies) for _ in range(repetitions)]
    row: dict[str, Any] = {"network": network, "lengths": "any" if varies else "fixed"}
    row |= {"iterations": iterations, "shares": [run["share"] for run in runs]}
    for name in runs[0]:
        row[name] = statistics.median(run[name] for run in runs)
    show(row)
    return row


def table(result: dict[str, Any]) -> str:
    lines = [["network", "lengths", "CPU time of an iteration", "planning", "of all", "from slots"]]
    for row in result["rows"]:
        lines.append(
            [
                TITLES[row["network"]],
                row["lengths"],
                f"{1e3 * row['cpu_seconds'] / row['iterations']:.0f} ms",
                f"{1e3 * row['planning_seconds']:.0f} ms",
                f"{row['share']:.2%}",
                f"{row['from_slots']:.1%}",
            ]
        )
    return markdown(lines)


def parse() -> argparse.Namespace:
    parser = table_parser(__doc__)
    parser.add_argument("--networks", nargs="+", choices=NAMES, default=list(NAMES))
    parser.add_argument("--repetitions", type=int, default=3)
    return parser.parse_args()


def main() -> None:
    arguments = parse()
    if print_earlier("planning", arguments, table):
        return
    torch.set_num_threads(1)
    networks = ["lstm"] if arguments.quick else arguments.networks
    iterations, repetitions = (6, 1) if arguments.quick else (100, arguments.repetitions)
    rows = [
        row_of(network, iterations, repetitions, varies=varies)
        for network in networks
        for varies in (False, *([True] if network in VARYING_NAMES else []))
    ]
    result = {"torch": str(torch.__version__), "goal": GOAL, "rows": rows}
    write_result("planning", result, arguments.output, quick=arguments.quick)
    print(table(result))


if __name__ == "__main__":
    main()
