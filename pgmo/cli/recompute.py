"""Plan what a model forgets and computes again, so that a step fits in a budget of bytes.

FACTORY is a function that takes nothing and returns a model and what it is called with; nothing of
the step is run. The model's script then gives the same budget to pgmo.recompute.
"""

import argparse
import importlib
import os
import sys
from typing import TYPE_CHECKING, Any

from pgmo.errors import OptionError
from pgmo.units import format_bytes

if TYPE_CHECKING:
    from pgmo.recompute.outcome import RecomputePlan


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `pgmo recompute`."""
    parser.add_argument(
        "factory", metavar="MODULE:FACTORY", help="such as train:example, for example() in train.py"
    )
    parser.add_argument(
        "--budget", default="min", metavar="SIZE", help='such as 8GiB, or "min" (default)'
    )
    parser.add_argument(
        "--counts",
        choices=("step", "all"),
        default="step",
        help="what counts: what a step allocates (default), or parameters and inputs, too",
    )
    parser.add_argument(
        "--costs",
        choices=("model", "measured"),
        default="model",
        help="how operators' times are known (default: by a model)",
    )
    parser.add_argument("--curve", action="store_true", help="plan for other budgets, too")
    parser.add_argument("--picture", metavar="FILE", help="draw the curve; needs matplotlib")
    parser.add_argument("--json", action="store_true", help="print one object, no text")


def run(arguments: argparse.Namespace) -> int:
    """Runs `pgmo recompute`."""
    from pgmo.cli.output import console, print_json, print_text, print_wrote
    from pgmo.recompute.apply import recompute

    model, inputs = _made(arguments.factory)
    _, plan = recompute(
        model, inputs, arguments.budget, counts=arguments.counts, costs=arguments.costs, check=False
    )
    curve = plan.curve() if arguments.curve or arguments.picture else None
    if arguments.picture and curve is not None:
        curve.plot(arguments.picture)
    if arguments.json:
        fields = {"factory": arguments.factory, **plan.as_dict()}
        print_json(fields if curve is None else {**fields, "curve": curve.as_rows()})
        return 0
    print_text(console(), plan.explain())
    if curve is not None:
        print_text(console(), f"\n{curve}")
    if arguments.picture:
        print_wrote([arguments.picture])
    print_text(console(), f"\n{_call(plan, arguments.counts)}")
    return 0


def _call(plan: "RecomputePlan", counts: str) -> str:
    size = plan.peak + (plan.resident if counts == "all" else 0)
    option = ', counts="all"' if counts == "all" else ""
    return (
        f"In the program: model, plan = pgmo.recompute(model, inputs, budget={size}{option})"
        f"  # {format_bytes(size)}"
    )


def _made(name: str) -> tuple[Any, Any]:
    module, colon, attribute = name.partition(":")
    if not colon or not module or not attribute:
        raise OptionError(f"{name!r} is no MODULE:FACTORY; write for example train:example")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # as `python -m` does
    try:
        factory = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise OptionError(f"cannot find {name}: {error}") from error
    made = factory()
    if not isinstance(made, tuple) or len(made) != 2:
        raise OptionError(
            f"{name}() returned {type(made).__name__}; it has to return a model and what it is "
            "called with: return model, (images, labels)"
        )
    return made
