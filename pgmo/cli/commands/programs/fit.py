"""Predict whether a job fits on a card, with which batch, and which changes would help.

No GPU is needed: the script runs for a few iterations on a CUDA runtime that computes nothing, with
PyTorch's real allocator. This needs a CUDA build of torch; --environment DIR creates an environment
that has one. Options of pgmo go before SCRIPT, all arguments after it go to the script. Exit code
0: it fits (if an option varies: with some value); 4: it does not.

    pgmo fit --card "RTX 4090" train.py --epochs 3
    pgmo fit --environment .venv-cuda train.py
    pgmo fit --card 16GiB --vary "--batch-size {}" train.py
    pgmo fit --card L4 --what-if --cards --report fit.html train.py
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from pgmo.cards import Card, find
from pgmo.cli.after_script import add_script, check_arguments, command_of
from pgmo.cli.exit_codes import DOES_NOT_FIT
from pgmo.cli.targets import check_number, check_targets, refuse_our_suffix
from pgmo.cli.terminal.output import as_command, console, print_json, print_wrote
from pgmo.errors import OptionError
from pgmo.runner.program import Program
from pgmo.terminal import print_message

if TYPE_CHECKING:
    from pgmo.fit.ask import Question
    from pgmo.fit.evidence import Job

_CARD = "RTX 4090"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `pgmo fit`."""
    parser.usage = (
        "pgmo fit [options] SCRIPT ... | pgmo fit [options] -m MODULE ... | "
        "pgmo fit --environment DIR"
    )
    add_script(parser, nargs="?")
    _add_options_after_script(parser)
    parser.set_defaults(card=_CARD)
    parser.add_argument(
        "--value",
        type=int,
        metavar="N",
        help="value of the varying option to check, instead of a search for the largest",
    )
    parser.add_argument(
        "--learn",
        metavar="N,N",
        help="values to rehearse, from which larger values are predicted (default: 2,4 for a "
        "batch, 64,128,256 for anything else); with two options in --vary, values of the second",
    )
    parser.add_argument(
        "--also",
        action="append",
        default=[],
        choices=("autocast:bfloat16", "autocast:float16", "checkpoint", "recompute:min"),
        help="also predict the largest value with this change of the script, from one more "
        "rehearsal per value of --learn; may be repeated",
    )
    parser.add_argument(
        "--samples",
        type=float,
        metavar="N",
        help="samples of the whole job; with --vary, the number of steps follows from them",
    )
    parser.add_argument(
        "--steps",
        type=float,
        metavar="N",
        help="optimizer steps of the whole job, to forecast its duration and how far its memory "
        "grows",
    )
    parser.add_argument(
        "--measured",
        metavar="SECONDS@CARD",
        help='measured time of one optimizer step, such as "0.41@RTX 3090"',
    )
    parser.add_argument("--report", metavar="FILE", help="write the answer as an HTML page")
    parser.add_argument(
        "--python",
        metavar="PATH",
        help="Python with a CUDA build of torch, if the current Python has none",
    )
    parser.add_argument(
        "--environment",
        metavar="DIR",
        help="use the environment in DIR, with a CUDA build of torch; it is created if it "
        "does not exist (several gigabytes), and has the other packages of this "
        "environment",
    )
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object instead of tables"
    )
    parser.add_argument("-f", "--force", action="store_true", help="overwrite existing files")


def _add_options_after_script(parser: argparse.ArgumentParser) -> None:
    """Add options that are refused after the script, because few scripts have such options."""
    parser.add_argument(
        "--card",
        help=f'name of a card, such as "A100-40GB", or a size, such as 16GiB (default: {_CARD})',
    )
    parser.add_argument(
        "--vary",
        metavar="OPTION",
        help='option of the script to vary, such as "--batch-size {}"; pgmo searches for the '
        'largest value that fits; with two options, as in "-b {b} -l {l}", for the largest value '
        "of the first option at each value of the second option",
    )
    parser.add_argument(
        "--effective-batch",
        type=int,
        metavar="N",
        help="samples per optimizer step, which pgmo splits into micro-batches that fit",
    )
    parser.add_argument(
        "--what-if",
        action="store_true",
        help="list other ways to train the model, with their bytes",
    )
    parser.add_argument(
        "--cards", action="store_true", help="list all known cards, with the time on each card"
    )


def run(arguments: argparse.Namespace) -> int:
    """Run `pgmo fit`."""
    from dataclasses import replace

    from pgmo.cli.terminal.fit_view import print_answer
    from pgmo.fit.ask import ask
    from pgmo.fit.two_values import has_two_values

    check_arguments(arguments, _add_options_after_script)
    if arguments.script is None:
        return _run_without_script(arguments)
    _check_numbers(arguments)
    card = find(arguments.card)
    if has_two_values(arguments.vary):
        return _run_table(arguments, card)
    job, question = _job(arguments), _question(arguments)
    _check_files(arguments)
    if arguments.environment is not None:
        job = replace(job, python=_environment(arguments))
    answer = ask(job, card, question, _notify)
    if arguments.json:
        print_json(answer.as_json())
    else:
        print_answer(console(), answer)
    if arguments.report:
        from pgmo.fit.page.page import page

        _write_page(arguments.report, page(answer))
    return 0 if answer.is_fit else DOES_NOT_FIT


def _notify(text: str) -> None:
    print_message(f"pgmo fit: {text}")


def _run_table(arguments: argparse.Namespace, card: Card) -> int:
    from pgmo.cli.terminal.fit_view import print_table
    from pgmo.fit.evidence import Job
    from pgmo.fit.two_values import LENGTHS, batch_table
    from pgmo.rehearsal.library import find_torch_build

    for option in _given(arguments, "value", "effective_batch", "also", "what_if", "cards"):
        raise OptionError(f"{option} needs one option that varies; --vary names two")
    _check_files(arguments)
    python = arguments.python if arguments.environment is None else _environment(arguments)
    python = find_torch_build(python).python
    found = batch_table(
        Job(tuple(command_of(arguments)), steps=arguments.steps, python=python),
        arguments.vary,
        card,
        lengths=_learned(arguments) or LENGTHS,
        notify=_notify,
    )
    if arguments.json:
        print_json(found.as_json())
    else:
        print_table(console(), found, card)
    if arguments.report:
        from pgmo.fit.page.page import table_page

        _write_page(arguments.report, table_page(Path(arguments.script).name, card, found))
    return 0 if any(one.batch for one in found.rows) else DOES_NOT_FIT


def _check_files(arguments: argparse.Namespace) -> None:
    Program(arguments.script, arguments.is_module).check()
    if arguments.report:
        refuse_our_suffix(arguments.report, "a page", ".html")
        sources = [] if arguments.is_module else [arguments.script]
        check_targets([arguments.report], force=arguments.force, sources=sources)


def _write_page(path: str, text: str) -> None:
    Path(path).write_text(text, "utf-8")
    print_wrote([path], f"xdg-open {path}")


def _run_without_script(arguments: argparse.Namespace) -> int:
    """Create the environment of `--environment`, if the command line names no script."""
    from pgmo.rehearsal.library import PYTHON

    if arguments.environment is None:
        raise OptionError("no script is named; write for example pgmo fit train.py")
    python = _environment(arguments)
    if arguments.json:
        print_json({"python": python})
    print_wrote([], as_command("export", f"{PYTHON}={python}"))
    return 0


def _environment(arguments: argparse.Namespace) -> str:
    """Return the Python of `--environment`, which is created if it does not exist."""
    from pgmo.rehearsal.cuda_environment import make_environment

    if arguments.python is not None:
        raise OptionError(
            "--environment and --python both choose the Python; leave one of them out"
        )
    return make_environment(Path(arguments.environment), _notify)


def _check_numbers(arguments: argparse.Namespace) -> None:
    for name in ("value", "effective_batch"):
        number = getattr(arguments, name)
        if number is not None:
            check_number(f"--{name.replace('_', '-')}", number, 1)
    for name in ("samples", "steps"):
        number = getattr(arguments, name)
        if number is not None and not 0 < number < float("inf"):
            raise OptionError(f"--{name} is {number}; give a number above 0")


def _job(arguments: argparse.Namespace) -> "Job":
    from pgmo.fit.evidence import Job

    if arguments.vary is not None and "{}" not in arguments.vary:
        raise OptionError(
            f'--vary "{arguments.vary}" has no {{}} for the value: write --vary "--batch-size {{}}"'
        )
    if arguments.vary is None:
        for option in _given(arguments, "value", "effective_batch", "also"):
            raise OptionError(f'{option} needs --vary, as in --vary "--batch-size {{}}"')
    return Job(tuple(command_of(arguments)), vary=arguments.vary, python=arguments.python)


def _given(arguments: argparse.Namespace, *names: str) -> list[str]:
    """Return the given options among `names`, as they are written on the command line."""
    given = [name for name in names if getattr(arguments, name) not in (None, [], False)]
    return [f"--{name.replace('_', '-')}" for name in given]


def _learned(arguments: argparse.Namespace) -> list[int]:
    """Return the values of `--learn`; an empty list if it is not given."""
    try:
        values = [int(one) for one in (arguments.learn or "").split(",") if arguments.learn]
    except ValueError:
        values = [0]
    if arguments.learn is not None and (not values or min(values) < 1):
        raise OptionError(
            f"--learn {arguments.learn} is not a list of whole numbers above 0; write "
            "for example --learn 2,4"
        )
    return values


def _question(arguments: argparse.Namespace) -> "Question":
    from pgmo.fit.ask import Question
    from pgmo.fit.what_if.timing import TimedStep

    measured = None
    if arguments.measured:
        seconds, _, card = arguments.measured.partition("@")
        try:
            measured = TimedStep(float(seconds), find(card))
        except ValueError as error:
            raise OptionError(
                f'--measured "{arguments.measured}" is not SECONDS@CARD, as in "0.41@RTX '
                f'3090": {error}'
            ) from error
    return Question(
        value=arguments.value,
        values=_learned(arguments),
        effective=arguments.effective_batch,
        changes=arguments.also,
        what_if=arguments.what_if,
        cards=() if arguments.cards else None,
        steps=arguments.steps,
        samples=arguments.samples,
        measured=measured,
    )
