"""Run a script on a card that is not there, and say what it would take of it.

PyTorch's CUDA build runs the script with its own allocator, on a runtime that computes nothing: a
laptop will do, and a GPU that is there is left alone. Options of pgmo go before SCRIPT, which gets
all that follows, but for --card and --world, unless they come after --. What scripts read of the
card is made up where kernels should have computed it, and what that makes uncertain is said. With
--save, the real run begins with the plan. Exit code 0: it fits; 3: it does not; 1: the script
failed for another reason.

    pgmo rehearse train.py --card "RTX 4090" --batch-size 16
    pgmo rehearse --card 16GiB --save plans train.py
    pgmo rehearse --card "A100 80GB" --world 64 train.py
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from pgmo.cli.option_values import check_number
from pgmo.errors import OptionError

if TYPE_CHECKING:
    from pgmo.rehearsal.answer import Rehearsal

_ITERATIONS = 10
_MOST = 1 << 30
_TOO_LARGE, _FAILED = 3, 1


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
        help="of the process, below --world (default: 0)",
    )
    parser.add_argument(
        "--way",
        default="pgmo",
        help="who serves its requests: default (PyTorch as it is), expandable, or pgmo (default)",
    )
    parser.add_argument(
        "--iterations",
        default=str(_ITERATIONS),
        metavar="N",
        help=f"stop after so many steps of the optimizers, or all (default: {_ITERATIONS})",
    )
    parser.add_argument(
        "--save", metavar="DIR", help="where the profile and the plan are saved, for the real run"
    )
    parser.add_argument(
        "--plan", metavar="FILE", help="begin with a saved plan, or one of a directory that fits"
    )
    parser.add_argument(
        "--python", metavar="PATH", help="with the CUDA build of torch (default: this one)"
    )
    parser.add_argument("-f", "--force", action="store_true", help="overwrite what is there")
    parser.add_argument("-q", "--quiet", action="store_true", help="keep the script's output back")
    parser.add_argument("--json", action="store_true", help="print one object, no text")
    parser.add_argument("script", metavar="SCRIPT", help="script, or module after -m")
    parser.add_argument(
        "arguments", metavar="...", nargs=argparse.REMAINDER, help="passed on to it"
    )


def _add_card(parser: argparse.ArgumentParser) -> None:
    """Add the options that may also follow the script."""
    parser.add_argument(
        "--card", help="a card's name, such as 'RTX 4090', or the memory of any, such as 16GiB"
    )
    parser.add_argument(
        "--world",
        type=int,
        metavar="N",
        help="processes of the job, as under torchrun, of which one is rehearsed (default: 1)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Run `pgmo rehearse`."""
    from pgmo.cards import find
    from pgmo.cli.after_script import take_options
    from pgmo.cli.terminal.output import console, print_json, print_wrote
    from pgmo.cli.terminal.rehearsal import lines, next_command, words
    from pgmo.rehearsal import rehearse
    from pgmo.terminal import say

    take_options(arguments, _add_card)
    if arguments.card is None:
        raise OptionError("on which card? Add --card, as in --card 'RTX 4090' or --card 16GiB")
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
    return _FAILED if answer.failed else _TOO_LARGE


def _iterations(text: str) -> int | None:
    if text == "all":
        return None
    if not text.isdecimal() or int(text) < 1:
        raise OptionError(f"--iterations is {text}; give a number of steps, or all")
    return int(text)


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)


def _check_files(arguments: argparse.Namespace) -> None:
    """Check the output files before a long run.

    Raises:
        FileError: if a file exists already.
    """
    if not arguments.save:
        return
    from pgmo.allocator.plans.store import prepare_directory
    from pgmo.cli.targets import check_targets
    from pgmo.runner.program import Program

    prepare_directory(Path(arguments.save))
    if arguments.world == 1:
        name = Program(arguments.script, arguments.is_module).name
        outputs = [f"{arguments.save}/{name}{end}" for end in (".pgmoprof", ".pgmoplan")]
        check_targets(outputs, force=arguments.force)
