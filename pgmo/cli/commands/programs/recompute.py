"""Plan which activations a model recomputes, so that a training step fits a memory budget.

FACTORY is a function without arguments that returns a model and its example inputs. It is in a
module (MODULE:FACTORY) or in a file (FILE.py:FACTORY). If the model's forward computes the loss,
the whole step is planned. Nothing is trained. The forward pass runs a few times without saving
values for the backward pass. To measure workspaces, large operators also run one by one. With -o
the planned step is written as a .pgmoprof file, in which recomputed blocks have the phase
"recompute".
"""

import argparse
import json
import sys
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

from pgmo.cli.factory import call_factory
from pgmo.cli.targets import check_number, check_suffix, check_targets
from pgmo.cli.terminal.output import as_command, console, print_json, print_text, print_wrote
from pgmo.errors import OptionError
from pgmo.units import format_bytes

if TYPE_CHECKING:
    from pgmo.recompute.outcome import RecomputePlan

_MOST_POINTS = 1000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `pgmo recompute`."""
    parser.add_argument("factory", metavar="FACTORY", help="MODULE:FACTORY or FILE.py:FACTORY")
    parser.add_argument(
        "--budget",
        metavar="SIZE",
        default="min",
        help="bytes, such as 8GiB; a share of the peak without recomputation, such as 0.5 or 50%%; "
        "or min (default), the smallest peak found with at most one more forward pass",
    )
    parser.add_argument(
        "--offload",
        metavar="LINK",
        help="also copy values to the host and back, over a link: pcie3, pcie4, pcie5, or "
        "bytes per second, such as 20GB/s or 20e9",
    )
    parser.add_argument(
        "--points",
        metavar="N",
        type=int,
        default=0,
        help="also plan N other budgets, and show peak and cost of each plan (default: 0)",
    )
    parser.add_argument(
        "-o", "--output", metavar="PROFILE", help="write the planned step as a .pgmoprof file"
    )
    parser.add_argument("-f", "--force", action="store_true", help="overwrite existing files")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")


def run(arguments: argparse.Namespace) -> int:
    """Run `pgmo recompute`."""
    if arguments.points == 1:
        raise OptionError("--points is 1; give 0, or 2 or more")
    check_number("--points", arguments.points, 0, _MOST_POINTS)
    target = _target(arguments)
    # The user's code runs inside this block, and stdout must contain only the JSON object.
    with redirect_stdout(sys.stderr) if arguments.json else nullcontext():
        plan = _plan(arguments)
    curve = plan.curve(arguments.points) if arguments.points else None
    if target is not None:
        plan.profile().save(target)
    if arguments.json:
        print_json(
            {
                "factory": arguments.factory,
                "file": None if target is None else str(target),
                **plan.as_dict(),
                "curve": None if curve is None else curve.as_rows(),
            }
        )
    else:
        out = console()
        print_text(out, plan.explain())
        if curve is not None:
            print_text(out, f"\nThe whole trade-off, one plan a line:\n{curve}")
        print_text(out, f"\n{_call(plan, arguments)}")
    if target is not None:
        print_wrote([target], as_command("pgmo report", target))
    else:
        again = ["--budget", arguments.budget]
        if arguments.offload is not None:
            again += ["--offload", arguments.offload]
        again += ["-o", "step.pgmoprof"]
        print_wrote([], as_command("pgmo recompute", arguments.factory, *again))
    return 0


def _plan(arguments: argparse.Namespace) -> "RecomputePlan":
    model, inputs = call_factory(arguments.factory)
    from pgmo.recompute.apply import recompute

    budget, link = _budget(arguments.budget), _link(arguments.offload)
    return recompute(model, inputs, budget, offload=link)[1]


def _budget(text: str) -> float | str:
    """Parse a budget. A plain share becomes a number; other texts are unchanged."""
    try:
        number = float(text)
    except ValueError:
        return text
    return number if number <= 1 else text


def _link(text: str | None) -> float | str | None:
    """Parse a link. Plain bytes per second become a number; other texts are unchanged."""
    try:
        return None if text is None else float(text)
    except ValueError:
        return text


def _call(plan: "RecomputePlan", arguments: argparse.Namespace) -> str:
    """Return a line with the Python call that makes a plan of the same peak."""
    link = _link(arguments.offload)
    options = "" if link is None else f", offload={json.dumps(link)}"
    return (
        f"In the program: model, plan = pgmo.recompute(model, inputs, budget={plan.peak}{options})"
        f"  # {format_bytes(plan.peak)}"
    )


def _target(arguments: argparse.Namespace) -> Path | None:
    """Check the output file before planning. Return its path, or None."""
    if not arguments.output:
        return None
    check_suffix(arguments.output, ".pgmoprof")
    file = arguments.factory.rpartition(":")[0]
    check_targets([arguments.output], force=arguments.force, sources=[file])
    return Path(arguments.output)
