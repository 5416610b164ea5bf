"""Run a script on a simulated card, and report how much of its memory the script takes.

PyTorch's CUDA build runs the script with a real allocator (see --way), on a CUDA runtime that
computes nothing: no GPU is needed, and an existing one is not used. Options of pgmo go before
SCRIPT, arguments of the script after it. Most values that the script reads from the card are made
up, and a note counts the sizes that depend on them. With --save, the real run can start from the
plan.
Exit code 0: it fits; 4: it does not; 1: the script failed for another reason.

    pgmo rehearse --card "RTX 4090" train.py --batch-size 16
    pgmo rehearse --card 16GiB --save plans train.py
    pgmo rehearse --card "A100 80GB" --world 64 train.py
"""

import argparse
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pgmo.cards import Card, find
from pgmo.cli.after_script import add_script, check_arguments, command_of
from pgmo.cli.exit_codes import DOES_NOT_FIT
from pgmo.cli.targets import check_number, check_targets
from pgmo.cli.terminal.output import console, print_json, print_wrote
from pgmo.errors import OptionError
from pgmo.runner.program import Program
from pgmo.terminal import print_message
from pgmo.units import format_bytes

if TYPE_CHECKING:
    from pgmo.rehearsal.answer import Rehearsal

_ITERATIONS = 10
_MOST = 1 << 30
_FAILED = 1

_WAYS = {
    "default": "PyTorch's allocator",
    "expandable": "PyTorch's allocator with expandable segments",
    "pgmo": "pgmo run",
}

_LEAST_PINNED = 1 << 20
"""Peaks of pinned host memory below this number of bytes are not shown. They come from scalars that
are copied to the host."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `pgmo rehearse`."""
    parser.usage = "pgmo rehearse [options] SCRIPT ... | pgmo rehearse [options] -m MODULE ..."
    add_script(parser)
    _add_card(parser)
    parser.set_defaults(world=1)
    parser.add_argument(
        "--rank",
        type=int,
        default=0,
        metavar="N",
        help="rank of the rehearsed process, below --world (default: 0)",
    )
    parser.add_argument(
        "--way",
        default="pgmo",
        help="allocator: 'pgmo', 'default' (PyTorch's) or 'expandable' (PyTorch's with expandable "
        "segments); pgmo if not given",
    )
    parser.add_argument(
        "--iterations",
        default=str(_ITERATIONS),
        metavar="N",
        help="number of optimizer steps before the script is stopped, or all (default: "
        f"{_ITERATIONS})",
    )
    parser.add_argument(
        "--save",
        metavar="DIR",
        help="directory for the profile and the plan, with which the real run can start",
    )
    parser.add_argument(
        "--plan",
        metavar="FILE",
        help="start with a saved plan: a file, or a directory from "
        "which the matching plan is taken",
    )
    parser.add_argument(
        "--python", metavar="PATH", help="Python with a CUDA build of torch (default: this one)"
    )
    parser.add_argument("-f", "--force", action="store_true", help="overwrite existing files")
    parser.add_argument(
        "-q", "--quiet", action="store_true", help="do not show the script's output"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")


def _add_card(parser: argparse.ArgumentParser) -> None:
    """Add the options that are refused if they stand after SCRIPT."""
    parser.add_argument(
        "--card", help="name of a card, such as 'RTX 4090', or size of any card, such as 16GiB"
    )
    parser.add_argument(
        "--world",
        type=int,
        metavar="N",
        help="number of processes of the job, as under torchrun; one of them is rehearsed "
        "(default: 1)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Run `pgmo rehearse`."""
    from pgmo.rehearsal import rehearse

    check_arguments(arguments, _add_card)
    if arguments.card is None:
        raise OptionError("no card is named; add --card, as in --card 'RTX 4090' or --card 16GiB")
    for name, least in (("world", 1), ("rank", 0)):
        check_number(f"--{name}", getattr(arguments, name), least, _MOST)
    card = find(arguments.card)
    _check_files(arguments)
    answer = rehearse(
        command_of(arguments),
        card=card,
        world=arguments.world,
        rank=arguments.rank,
        way=arguments.way,
        iterations=_iterations(arguments.iterations),
        save=None if arguments.save is None else Path(arguments.save),
        plan=None if arguments.plan is None else Path(arguments.plan),
        python=arguments.python,
        quiet=arguments.quiet or arguments.json,
    )
    if arguments.json:
        card_fields = {"card": card.name, "usable": card.usable, "way": arguments.way}
        print_json({"script": arguments.script, **card_fields, **answer.to_fields()})
    else:
        out = console()
        for line in lines(answer, arguments.script, card, arguments.way):
            out.print(line, markup=False, soft_wrap=True)
    if arguments.quiet and answer.error and not arguments.json:
        print_message(answer.error)
    wrote = [one for one in (answer.profile, answer.plan) if one is not None and one.exists()]
    again = None
    if answer.plan is not None and answer.fits and arguments.world == 1:
        script = shlex.join(command_of(arguments))
        again = f"pgmo run --plan {shlex.quote(str(answer.plan))} {script}"
    print_wrote(wrote, again)
    if answer.fits:
        return 0
    return _FAILED if answer.failed else DOES_NOT_FIT


def _iterations(text: str) -> int | None:
    if text == "all":
        return None
    if not text.isdecimal() or int(text) < 1:
        raise OptionError(f"--iterations is {text}; give a number of steps, or all")
    return int(text)


def _check_files(arguments: argparse.Namespace) -> None:
    if not arguments.save:
        return
    from pgmo.allocator.plans.directory import prepare_directory

    prepare_directory(Path(arguments.save))
    if arguments.world == 1:
        name = Program(arguments.script, arguments.is_module).name
        outputs = [f"{arguments.save}/{name}{end}" for end in (".pgmoprof", ".pgmoplan")]
        check_targets(outputs, force=arguments.force)


def lines(answer: "Rehearsal", script: str, card: Card, way: str) -> Iterator[str]:
    """Yield the result as lines of text."""
    size = format_bytes(card.usable)
    where = f"a card of {size}" if card.anonymous else f"{card.name} ({size})"
    verdict = "it fits" if answer.fits else "it failed" if answer.failed else "it does not fit"
    yield f"{script} on {where}, under {_WAYS[way]}: {verdict}"
    left = card.usable - answer.card_peak
    yield _line(
        "card", f"{format_bytes(answer.card_peak)} at the peak, {format_bytes(left)} are left"
    )
    yield _line("allocator", f"{format_bytes(answer.reserved_peak)} reserved at the peak")
    yield _line("tensors", f"{format_bytes(answer.allocated_peak)} at the peak")
    yield _line("context", f"{format_bytes(answer.context)}, from `pgmo doctor` or estimated")
    if answer.pinned_peak >= _LEAST_PINNED:
        yield _line("host", f"{format_bytes(answer.pinned_peak)} pinned at the peak")
    yield _line("iterations", str(answer.iterations or "none was completed"))
    if answer.out_of_memory:
        message, _, place = answer.out_of_memory.rpartition("\n")
        yield _line("error", message.partition(". ")[0])
        yield _line("at", place)
    for note in answer.notes:
        yield _line("note", note)


def _line(name: str, text: str) -> str:
    return f"{name:<10}  {text}"
