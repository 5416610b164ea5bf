"""Run a script on a simulated card, and report how much of its memory the script takes.

PyTorch's CUDA build runs the script with its real allocator, on a CUDA runtime that computes
nothing: no GPU is needed, and an existing one is not used. Options of pgmo go before SCRIPT, all
arguments after it go to the script. Values that kernels would have computed are made up, and notes
list the sizes that depend on them. With --save, the real run can start from the plan.
Exit code 0: it fits; 4: it does not; 1: the script failed for another reason.

    pgmo rehearse --card "RTX 4090" train.py --batch-size 16
    pgmo rehearse --card 16GiB --save plans train.py
    pgmo rehearse --card "A100 80GB" --world 64 train.py
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from pgmo.cli.exit_codes import DOES_NOT_FIT
from pgmo.cli.option_values import check_number
from pgmo.errors import OptionError

if TYPE_CHECKING:
    from pgmo.rehearsal.answer import Rehearsal

_ITERATIONS = 10
_MOST = 1 << 30
_FAILED = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `pgmo rehearse`."""
    parser.usage = "pgmo rehearse [options] SCRIPT ... | pgmo rehearse [options] -m MODULE ..."
    parser.add_argument(
        "-m", dest="is_module", action="store_true", help="SCRIPT is a module, as for python -m"
    )
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
        help="allocator: pgmo (default), or PyTorch's: default, or expandable for expandable "
        "segments",
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
    parser.add_argument(
        "script", metavar="SCRIPT", help="path of the script, or name of the module after -m"
    )
    parser.add_argument(
        "arguments", metavar="...", nargs=argparse.REMAINDER, help="arguments of the script"
    )


def _add_card(parser: argparse.ArgumentParser) -> None:
    """Add the options that are refused after the script."""
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
    from pgmo.cards import find
    from pgmo.cli.after_script import check_arguments
    from pgmo.cli.terminal.output import console, print_json, print_wrote
    from pgmo.cli.terminal.rehearsal import lines, next_command, words
    from pgmo.rehearsal import rehearse
    from pgmo.terminal import say

    check_arguments(arguments, _add_card)
    if arguments.card is None:
        raise OptionError("no card is named; add --card, as in --card 'RTX 4090' or --card 16GiB")
    for name, least in (("world", 1), ("rank", 0)):
        check_number(f"--{name}", getattr(arguments, name), least, _MOST)
    card = find(arguments.card)
    _check_files(arguments)
    answer = rehearse(
        words(arguments.script, arguments.is_module, arguments.arguments),
        card=card,
        world=arguments.world,
        ranks=(arguments.rank,),
        way=arguments.way,
        iterations=_iterations(arguments.iterations),
        save=_path(arguments.save),
        plan=_path(arguments.plan),
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
        say(answer.error)
    wrote = [one for one in (answer.profile, answer.plan) if one is not None and one.exists()]
    print_wrote(wrote, next_command(answer, arguments))
    return _code(answer)


def _code(answer: "Rehearsal") -> int:
    if answer.fits:
        return 0
    return _FAILED if answer.failed else DOES_NOT_FIT


def _iterations(text: str) -> int | None:
    if text == "all":
        return None
    if not text.isdecimal() or int(text) < 1:
        raise OptionError(f"--iterations is {text}; give a number of steps, or all")
    return int(text)


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)


def _check_files(arguments: argparse.Namespace) -> None:
    if not arguments.save:
        return
    from pgmo.allocator.plans.directory import prepare_directory
    from pgmo.cli.targets import check_targets
    from pgmo.runner.program import Program

    prepare_directory(Path(arguments.save))
    if arguments.world == 1:
        name = Program(arguments.script, arguments.is_module).name
        outputs = [f"{arguments.save}/{name}{end}" for end in (".pgmoprof", ".pgmoplan")]
        check_targets(outputs, force=arguments.force)
