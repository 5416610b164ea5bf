"""Run a training script under pgmo, without changing it.

Options of pgmo go before SCRIPT, all arguments after it go to the script. Each optimizer step ends
an iteration; if several optimizers alternate, each round of steps does. Evaluation is not
planned. With --step-on, each call of a function is an iteration, for inference and servers. Any
thread may call the function; of overlapping calls, only the first is an iteration. The exit code is
that of the script. Under torchrun, all processes share one directory of plans, and only rank 0
prints a report.

    pgmo run --save plans train.py --epochs 3
    pgmo run -m my_package.train --epochs 3
    pgmo run --step-on server.app:predict serve.py
    torchrun --nproc-per-node 2 -m pgmo run --plan plans --save plans train.py
"""

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from pgmo.cli.after_script import add_script, check_arguments
from pgmo.cli.targets import check_number, check_targets, refuse_our_suffix
from pgmo.errors import OptionError
from pgmo.runner.program import Program
from pgmo.share.address import PRIORITY, VARIABLE, default_address
from pgmo.share.protocol import MOST_PRIORITY
from pgmo.units import parse_bytes
from pgmo.world import of_rank, rank

if TYPE_CHECKING:
    from pgmo.runner.supervision import RunOptions


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `pgmo run`."""
    parser.usage = "pgmo run [options] SCRIPT ... | pgmo run [options] -m MODULE ..."
    add_script(parser)
    parser.add_argument(
        "--profile-only", action="store_true", help="record, save the profile, and replay nothing"
    )
    parser.add_argument(
        "--save",
        metavar="DIR",
        help="directory for the profile and the plan (default: nothing is saved; with "
        "--profile-only: the current directory)",
    )
    parser.add_argument(
        "--no-tags",
        action="store_true",
        help="do not name the modules and operators that hold memory; with names, one "
        "iteration takes about three times its CPU time",
    )
    parser.add_argument(
        "--who-keeps",
        action="store_true",
        help="name the variables, attributes and closures that keep the largest blocks and "
        "growing memory alive; takes some seconds after iteration 6, at the end, and a few times "
        "while memory grows",
    )
    parser.add_argument(
        "--plan",
        metavar="FILE",
        help="start with a saved plan: a file, or a directory from which the matching plan is "
        "taken",
    )
    parser.add_argument(
        "--device", help="cpu, cuda or cuda:N (default: where the optimizers' parameters are)"
    )
    parser.add_argument(
        "--step-on",
        metavar="MODULE:FUNCTION",
        help="each call of the function, or of MODULE:CLASS.METHOD, is an iteration (default: each "
        "step of the optimizers is)",
    )
    parser.add_argument(
        "--memory",
        default="device",
        choices=("device", "managed"),
        help="device (default), or managed: unified memory, for models that do not fit",
    )
    parser.add_argument(
        "--budget",
        metavar="SIZE",
        help="device memory for the blocks of an iteration; beyond it, blocks with the longest "
        "lifetimes are spilled to unified memory",
    )
    parser.add_argument(
        "--limit", metavar="SIZE", help="maximum memory of the card that pages may take"
    )
    parser.add_argument(
        "--share",
        action="store_true",
        help="take turns on the card with all programs that were started with --share (see "
        "pgmo share)",
    )
    parser.add_argument(
        "--priority",
        metavar="N",
        type=int,
        help="with --share: from -8 to 8; each step up doubles the program's share of the time",
    )
    _add_fit_options(parser)
    parser.add_argument("--json", metavar="FILE", help="file for the counters, or - for stdout")
    parser.add_argument("-f", "--force", action="store_true", help="overwrite existing files")
    parser.add_argument(
        "-q", "--quiet", action="store_true", help="print no status line and no summary"
    )
    parser.add_argument(
        "--live",
        action="store_true",
        help="print the status line also if stderr is not a terminal, every 30 seconds",
    )


def _add_fit_options(parser: argparse.ArgumentParser) -> None:
    """Add `--fit`, and the options that are used only with it."""
    parser.add_argument(
        "--fit",
        action="store_true",
        help="rehearse the script, and start it as it fits on the card: unchanged, with smaller "
        "micro-batches (needs --vary and --accumulate), or with recomputation",
    )
    parser.add_argument(
        "--vary",
        metavar="OPTION",
        help='the script\'s option for the batch, such as "--batch-size {}"',
    )
    parser.add_argument(
        "--accumulate",
        metavar="OPTION",
        help="the script's option for the steps of gradient accumulation, such as "
        '"--accumulate {}"',
    )


def run(arguments: argparse.Namespace) -> int:
    """Run `pgmo run`."""
    check_arguments(arguments, _add_fit_options)
    _share(arguments)
    if arguments.fit:
        from pgmo.cli.next_plan import run_until_it_fits

        if arguments.json is not None:
            raise OptionError("--fit uses --json for its own runs; leave --json out")
        return run_until_it_fits(arguments)
    for name in ("vary", "accumulate"):
        if getattr(arguments, name) is not None:
            raise OptionError(f"--{name} is used only with --fit; add --fit, or leave --{name} out")
    from pgmo.cli.terminal.run_line import RunLine
    from pgmo.cli.terminal.run_report import finish
    from pgmo.imports import after_import
    from pgmo.runner.early_pages import serve_from_the_start
    from pgmo.runner.supervision import RunOptions, Supervision
    from pgmo.runner.watcher import Watcher

    program = Program(arguments.script, arguments.is_module, tuple(arguments.arguments))
    options = RunOptions(
        name=program.name,
        plan=arguments.plan,
        save=arguments.save,
        device=arguments.device,
        profile_only=arguments.profile_only,
        start=Path.cwd(),
        memory=arguments.memory,
        budget=None if arguments.budget is None else parse_bytes(arguments.budget),
        limit=None if arguments.limit is None else parse_bytes(arguments.limit),
        step_on=arguments.step_on,
        tags=not arguments.no_tags,
        who_keeps=arguments.who_keeps,
    )
    _check(options)
    program.check()
    json_path = of_rank(arguments.json) if arguments.json else None
    _check_files(options, program, json_path, force=arguments.force)
    quiet = arguments.quiet or (rank() or 0) > 0
    live = arguments.live and (rank() or 0) == 0
    with RunLine(quiet=quiet, live=live) as line:
        supervision = Supervision(options, line.update)
        own = program.target if program.is_module else program.name
        step_on = None
        if options.step_on is not None:
            from pgmo.runner.called import Called
            from pgmo.runner.step_on import StepOn

            step_on = StepOn(options.step_on, own, Called(supervision))
        if options.memory == "device":
            serve_from_the_start(supervision.notes.append)
        if step_on is None:
            after_import("torch.optim.optimizer", Watcher(supervision).attach)
        ending = program.run(step_on)
    if step_on is not None and step_on.error is not None:
        supervision.close()
        raise step_on.error
    return finish(program, ending, supervision, json_path=json_path, quiet=quiet)


def _share(arguments: argparse.Namespace) -> None:
    """Start a broker for `--share` if none runs, and set the variables that sessions read."""
    if not arguments.share:
        if arguments.priority is not None:
            raise OptionError(
                "--priority is used only with --share; add --share, or leave --priority out"
            )
        return
    from pgmo.share.starting import ensure_broker

    priority = arguments.priority or 0
    check_number("--priority", priority, -MOST_PRIORITY, MOST_PRIORITY)
    address = Path(os.environ.get(VARIABLE) or default_address())
    ensure_broker(address)
    os.environ[VARIABLE] = str(address)
    if arguments.priority is not None:
        os.environ[PRIORITY] = str(priority)


def _check_files(
    options: "RunOptions", program: Program, json_path: str | None, *, force: bool
) -> None:
    script = [] if program.is_module else [program.target]
    if json_path and json_path != "-":
        refuse_our_suffix(json_path, "the file of the counters", ".json")
        read = [*script, *([options.plan] if options.plan else [])]
        check_targets([json_path], force=force, sources=read)
    folder = "." if options.profile_only and options.save is None else options.save
    if folder is not None:
        from pgmo.allocator.plans.directory import prepare_directory

        prepare_directory(Path(folder))
        suffixes = (".pgmoprof",) if options.profile_only else (".pgmoprof", ".pgmoplan")
        outputs = [f"{folder}/{options.name}{suffix}" for suffix in suffixes]
        # The plan of `--plan` is no source here, because a run may save it again with additions.
        # Files of several ranks have names that depend on their contents.
        if rank() is None:
            check_targets(outputs, force=force, sources=script)


def _check(options: "RunOptions") -> None:
    from pgmo.allocator.session.options import Options

    if options.memory == "managed" and (options.device == "cpu" or options.limit is not None):
        raise OptionError(
            "--memory managed needs a CUDA device and has no pages to limit; leave --device "
            "cpu and --limit out"
        )
    Options(
        device=options.device,
        model_name=options.name,
        budget=options.budget,
        limit=options.limit,
    )
    if options.plan is not None:
        if options.profile_only:
            raise OptionError(
                "--profile-only replays nothing and cannot be combined with "
                "--plan; leave one of them out"
            )
        from pgmo.packing.plan import Plan

        # --plan may name the directory of --save before the first run has created it.
        is_directory = os.path.isdir(options.plan) or (
            options.save is not None
            and os.path.abspath(options.plan) == os.path.abspath(options.save)
        )
        if not is_directory:
            Plan.load(options.plan)
