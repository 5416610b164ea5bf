"""Train four real networks, without and with pgmo, and compare.

Each network trains three times on synthetic data with the same seed, every time in a fresh process:
with PyTorch's own CPU allocator, with pgmo, and with pgmo from the plan that the second run saved.
Losses and final weights are compared bit for bit. If they differ, plain PyTorch trains again, and
then all runs train again on one thread. The exit code is 1 only if the runs differ on one thread,
too, and plain PyTorch repeats itself there. Fewer than 99 % of requests served from the arena, or
an arena more than 1 % above the lower bound, give a warning.
"""

import argparse

from pgmo.cli.option_values import check_number
from pgmo.demo.agreement import Agreement
from pgmo.demo.comparison_runs import DemoComparison, compare, saved_stem
from pgmo.demo.job import Lengths
from pgmo.demo.network import NAMES, VARYING_NAMES
from pgmo.errors import AdapterError, OptionError

_MOST_THREADS = 1024


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `pgmo demo`."""
    parser.add_argument(
        "--network",
        choices=NAMES,
        action="append",
        help="train only this one; may be given several times (default: all)",
    )
    parser.add_argument("--iterations", type=int, default=20, help="steps per run (default: 20)")
    parser.add_argument("--seed", type=int, default=0, help="of weights and data (default: 0)")
    parser.add_argument(
        "--lengths",
        choices=("fixed", "varying"),
        default="fixed",
        help="varying: another sequence length each step (gpt and lstm only; default: fixed)",
    )
    parser.add_argument(
        "--threads", type=int, default=0, help="for torch, in all runs (default: torch's choice)"
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="DIR",
        default="demo-output",
        help="where profiles and plans are saved (default: demo-output)",
    )
    parser.add_argument("-f", "--force", action="store_true", help="overwrite what is there")
    parser.add_argument("--json", action="store_true", help="print a list of objects, no table")


def run(arguments: argparse.Namespace) -> int:
    """Runs `pgmo demo`."""
    from pgmo.cli.terminal.demo_report import print_comparisons, shortcomings
    from pgmo.cli.terminal.output import (
        as_command,
        print_json,
        print_note,
        print_wrote,
        refuse_to_overwrite,
    )
    from pgmo.cli.terminal.progress import ComparisonProgress

    check_number("--iterations", arguments.iterations, 1)
    check_number("--threads", arguments.threads, 0, _MOST_THREADS)
    check_number("--seed", arguments.seed, 0, 2**63 - 1)
    lengths: Lengths = arguments.lengths
    networks = choose_networks(arguments.network, lengths)
    _require_torch()
    stems = [saved_stem(network, arguments.output, lengths) for network in networks]
    saved = [f"{stem}{suffix}" for stem in stems for suffix in (".pgmoprof", ".pgmoplan")]
    refuse_to_overwrite(saved, force=arguments.force)
    comparisons: list[DemoComparison] = []
    with ComparisonProgress(networks, arguments.iterations) as progress:
        for network in networks:
            comparisons.append(
                compare(
                    network,
                    arguments.output,
                    iterations=arguments.iterations,
                    seed=arguments.seed,
                    lengths=lengths,
                    threads=arguments.threads,
                    observer=progress.observer(network),
                )
            )
    if arguments.json:
        print_json([comparison.to_fields() for comparison in comparisons])
    else:
        print_comparisons(comparisons)
    for comparison in comparisons:
        for shortcoming in shortcomings(comparison):
            print_note(f"Warning: {shortcoming}")
    print_wrote(saved, as_command("pgmo stats", saved[0]))
    return int(any(row.agreement is Agreement.DIFFERENT for row in comparisons))


def choose_networks(asked: list[str] | None, lengths: Lengths) -> tuple[str, ...]:
    """The networks to train: those asked for, else all that can have such lengths.

    Raises:
        OptionError: when one that was asked for has no sequence whose length could vary.

    Example:
        >>> choose_networks(None, "varying")
        ('gpt', 'lstm')
    """
    possible = NAMES if lengths == "fixed" else VARYING_NAMES
    for name in asked or ():
        if name not in possible:
            raise OptionError(
                f"{name!r} has no sequence whose length could vary; "
                f"--lengths varying works with {' and '.join(possible)}"
            )
    return tuple(dict.fromkeys(asked)) if asked else possible


def _require_torch() -> None:
    import importlib.util

    if importlib.util.find_spec("torch") is None:
        raise AdapterError(
            "the demo trains networks with PyTorch, which is not installed: pip install torch"
        )
